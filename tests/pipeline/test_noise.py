import os
import sys

from opsplice.isolation.noise import captured
from tests.waiting import in_threads


def test_native_output_is_captured_and_stderr_restored(capfd):
    with captured() as noise:
        os.write(2, b"from native code\n")
    print("afterwards", file=sys.stderr)
    assert noise.text == "from native code\n"
    assert capfd.readouterr().err == "afterwards\n"


def test_disabled_capture_lets_it_through(capfd):
    with captured(enabled=False) as noise:
        os.write(2, b"loud\n")
    assert noise.text == ""
    assert capfd.readouterr().err == "loud\n"


def test_stderr_is_restored_after_an_error(capfd):
    try:
        with captured() as noise:
            os.write(2, b"last words")
            raise ValueError
    except ValueError:
        pass
    os.write(2, b"loud")
    assert noise.text == "last words"
    assert capfd.readouterr().err == "loud"


def test_overlapping_captures_share_the_redirection(capfd):
    with captured() as outer:
        os.write(2, b"one ")
        thread_noise = []

        def capture_in_thread():
            with captured() as noise:
                os.write(2, b"two ")
            thread_noise.append(noise.text)

        in_threads(capture_in_thread)
        os.write(2, b"three")
    assert thread_noise == ["two "]
    assert outer.text == "one two three"
    assert capfd.readouterr().err == ""
