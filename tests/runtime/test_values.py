import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opsplice.common.errors import OpspliceError
from opsplice.runtime.value_text import brief_value, format_value, parse_input, save_values


def one(text):
    (value,) = parse_input(text)
    return value


def error_of(text):
    with pytest.raises(OpspliceError) as error:
        parse_input(text)
    return error.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8xf32=2", np.full(8, 2, np.float32)),
        ("2x2xf32=1,2,3,4", np.array([[1, 2], [3, 4]], np.float32)),
        ("2x2xi32=[1 2][3 4]", np.array([[1, 2], [3, 4]], np.int32)),
        ("2x2xi64=[[1,2],[3,4]]", np.array([[1, 2], [3, 4]], np.int64)),
        ("2xf64=1;-2.5e3", np.array([1, -2500.0])),
        ("3xf16", np.zeros(3, np.float16)),
        ("2xbf16=1.5", np.full(2, 1.5, ml_dtypes.bfloat16)),
        ("f32=1.5", np.array(1.5, np.float32)),
        ("3xf32=inf nan -inf", np.array([np.inf, np.nan, -np.inf], np.float32)),
        ("3xi1=1 false 01", np.array([True, False, True])),
        ("2xi8=255 -128", np.array([-1, -128], np.int8)),
        ("2xui8=255 0x10", np.array([255, 16], np.uint8)),
        ("0xf32", np.zeros(0, np.float32)),
        ("2xcomplex<f32>=1+2j", np.full(2, 1 + 2j, np.complex64)),
    ],
)
def test_typed_inputs(text, expected):
    value = one(text)
    assert value.dtype == expected.dtype
    assert value.shape == expected.shape
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5", 1.5), ("3", 3), ("-0x10", -16), ("1e3", 1000.0), ("true", True)]
)
def test_bare_numbers(text, expected):
    value = one(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3xf32=1,x,3", "'x' in the input '3xf32=1,x,3' is not a value of f32"),
        ("2xf32=a", "'a' in the input '2xf32=a' is not a value of f32"),
        ("2xf32=1,1e40", "'1e40' in the input '2xf32=1,1e40' is not a value of f32"),
        ("2xf16=70000,1", "'70000' in the input '2xf16=70000,1' is not a value of f16"),
        ("2xi8=256", "'256' in the input '2xi8=256' is not a value of i8"),
        ("2xui8=-1", "'-1' in the input '2xui8=-1' is not a value of ui8"),
        ("2xi32=1.5", "'1.5' in the input '2xi32=1.5' is not a value of i32"),
        ("2xi1=2", "'2' in the input '2xi1=2' is not a value of i1"),
        ("2xf32=1,2,3", "input '2xf32=1,2,3' has 3 values for 2 elements"),
        ("4xf33=1", "input '4xf33=1' has an unknown element type 'f33'"),
        ("hello", "cannot read the input 'hello'"),
        ("", "cannot read the input ''"),
        ("99999999999999xf64", "input '99999999999999xf64' is too large for this machine's memory"),
    ],
)
def test_bad_inputs(text, message):
    error = error_of(text)
    assert error.message == message


def test_npy_files_give_all_their_arrays(tmp_path):
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.save(file, np.arange(3, dtype=np.float32))
        np.save(file, np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
        np.save(file, np.float64(2))
    first, second, third = parse_input(f"@{path}")
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(second, [[0, 1, 2], [3, 4, 5]])
    assert second.dtype == np.int32
    assert second.flags.c_contiguous
    assert third.shape == ()


def test_files_that_are_not_what_they_should_be(tmp_path):
    text, cut, pickled = tmp_path / "t.npy", tmp_path / "cut.npy", tmp_path / "object.npy"
    text.write_text("hello")
    assert error_of(f"@{text}").message == f"{text} is not an .npy file"
    np.save(cut, np.arange(100))
    cut.write_bytes(cut.read_bytes()[:-1])
    assert error_of(f"@{cut}").message.startswith(f"cannot read array 0 of {cut}")
    np.save(pickled, np.array([{}]), allow_pickle=True)
    assert "Object arrays" in error_of(f"@{pickled}").message
    assert "no such file" in error_of(f"@{tmp_path / 'none.npy'}").message


@pytest.mark.parametrize(
    "dims", ["9" * 5000 + "x", "1x" * 70, "0x" + "9" * 20 + "x", "9" * 20 + "x", "500000000000x"], ids=range(5)
)
def test_what_no_memory_holds(dims):
    assert error_of(f"{dims}f32=1").message.endswith("is too large for this machine's memory")


def test_what_no_file_can_be_called():
    with pytest.raises(OpspliceError, match=r"cannot read x\0y: .*embedded null"):
        parse_input("@x\0y")


def test_the_middle_of_a_long_text_is_left_out_of_an_error():
    with pytest.raises(OpspliceError) as error:
        parse_input(f"2xf32=@{'x' * 100_000}")
    assert len(str(error.value)) < 2100
    assert error.value.message.startswith("cannot read xxx")
    assert error.value.message.endswith("xxx: file name too long")
    assert " ... " in error.value.message


def test_raw_files(tmp_path):
    path = tmp_path / "raw.bin"
    path.write_bytes(np.arange(6, dtype=np.int16).tobytes())
    np.testing.assert_array_equal(one(f"2x3xi16=@{path}"), [[0, 1, 2], [3, 4, 5]])
    assert error_of(f"4xf32=@{path}").message == f"{path} has 12 bytes, 4xf32 takes 16"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[1, 2], [3, 4]], np.float32) / 3, "2x2xf32=[0.333333 0.666667][1 1.33333]"),
        (np.array(2, np.float64), "f64=2"),
        (np.array([1e30, np.nan, np.inf], np.float32), "3xf32=1E+30 NAN INF"),
        (np.ones((2, 1, 2), np.int8), "2x1x2xi8=[[1 1]][[1 1]]"),
        (np.array([True, False]), "2xi1=1 0"),
        (np.zeros((0, 3), np.int32), "0x3xi32="),
        (3.5, "3.5"),
    ],
)
def test_printed_values(value, expected):
    assert format_value(value) == expected
    assert brief_value(value) == expected


HUGE = " ".join([str(1 << 40)] * 6)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.arange(101, dtype=np.int8), "101xi8=0 1 2 3 4 5... from 0 to 100, mean 50"),
        (np.full((5, 60), 0.25, np.float32), "5x60xf32=0.25 0.25 0.25 0.25 0.25 0.25... from 0.25 to 0.25, mean 0.25"),
        (np.repeat([1, np.nan, -np.inf], 50), "150xf64=1 1 1 1 1 1... from -INF to 1, mean -INF, 50 of 150 are NAN"),
        (np.full(200, np.nan), "200xf64=NAN NAN NAN NAN NAN NAN... 200 of 200 are NAN"),
        (np.arange(200) % 4 == 0, "200xi1=1 0 0 0 1 0... 50 of 200 are 1"),
        (np.full(101, 1 << 40), f"101xi64={HUGE}... from 1.09951E+12 to 1.09951E+12, mean 1.09951E+12"),
        (np.full(101, 300, ml_dtypes.bfloat16), "101xbf16=300 300 300 300 300 300... from 300 to 300, mean 300"),
        (np.full(101, 1j, np.complex64), "101xcomplex<f32>=1j 1j 1j 1j 1j 1j..."),
    ],
)
def test_of_large_values_the_first_elements_and_the_range_are_printed(value, expected):
    assert brief_value(value) == expected


@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint16, np.int64, np.bool_]), hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
    )
)
def test_printed_integers_read_back(array):
    back = one(format_value(array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_saved_to_one_file_and_to_a_folder(tmp_path):
    values = [np.arange(3, dtype=np.float32), 2.5]
    assert save_values(values, tmp_path / "out.npy") == [tmp_path / "out.npy"]
    first, second = parse_input(f"@{tmp_path / 'out.npy'}")
    np.testing.assert_array_equal(first, values[0])
    assert second == 2.5
    files = save_values(values, tmp_path / "outs")
    assert [file.name for file in files] == ["output0.npy", "output1.npy"]
    np.testing.assert_array_equal(np.load(files[0]), values[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_elements_that_files_of_numpy_have_no_name_for_are_raw(dtype, tmp_path):
    values = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype))
    (file,) = save_values([values], tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(file).view(values.dtype), values)


def test_saving_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OpspliceError, match="cannot write the outputs to"):
        save_values([1], tmp_path / "file" / "out.npy")
    with pytest.raises(OpspliceError, match="cannot write the outputs to"):
        save_values([1], tmp_path / "file")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
