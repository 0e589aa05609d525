// C's gamma function and its logarithm.
const math = @import("std").math;
const double = @import("double.zig");
const Double = double.Double;
const product = double.product;

// Taylor's coefficients of 1 / gamma(1 + u) at 0.
const coefficients = [_]comptime_float{
    1,
    0.577215664901532860606512090082402431,
    -0.655878071520253881077019515145390481,
    -0.0420026350340952355290039348754298187,
    0.166538611382291489501700795102105236,
    -0.0421977345555443367482083012891873913,
    -9.62197152787697356211492167234819898e-3,
    7.21894324666309954239501034044657271e-3,
    -1.16516759185906511211397108401838867e-3,
    -2.15241674114950972815729963053647806e-4,
    1.28050282388116186153198626328164323e-4,
    -2.01348547807882386556893914210218184e-5,
    -1.25049348214267065734535947383309224e-6,
    1.13302723198169588237412962033074494e-6,
    -2.05633841697760710345015413002057284e-7,
    6.11609510448141581786249868285534287e-9,
    5.0020076444692229300556650480599913e-9,
    -1.18127457048702014458812656543650558e-9,
    1.04342671169110051049154033231225019e-10,
    7.78226343990507125404993731136077723e-12,
    -3.69680561864220570818781587808576624e-12,
    5.1003702874544759790154813228632318e-13,
    -2.05832605356650678322242954485523742e-14,
    -5.34812253942301798237001731872793995e-15,
    1.22677862823826079015889384662242243e-15,
    -1.18125930169745876951376458684229783e-16,
    1.18669225475160033257977724292867407e-18,
};

// 1 / gamma(1 + u) for |u| <= 1/2, to 2^-58.
fn reciprocal(u: f64) Double {
    return double.series(double.exact(u), coefficients[0..22].*, 3);
}

// What gamma(1 + u) is multiplied with for gamma(n + u), or divided by where n < 1.
fn factors(n: i64, u: f64) Double {
    var result = Double{ .high = if (n < 1) u else 1, .low = 0 };
    var k: f64 = 1;
    for (1..@intCast(@max(1, n, 1 - n))) |_| {
        result = result.times(double.ordered(if (n < 1) -k else k, u));
        k += 1;
    }
    return result;
}

// The logarithm of gamma(x) for x >= 8, by Stirling's formula.
fn stirling(x: f64) Double {
    const inverse = 1 / x;
    // The rest of it times x, as a polynomial in 1 / x^2, to 2^-60: interpolated at the zeros of
    // Chebyshev's polynomial.
    const rest = inverse * double.polynomial(inverse * inverse, [_]f64{
        0.08333333333333333273,
        -0.002777777777773988158,
        0.0007936507897524058238,
        -0.0005952365845057048686,
        0.0008414700852503147294,
        -0.001890382993887715038,
        0.00506590536015613245,
    });
    const half_log_of_2_pi = Double.constant(0.91893853320467274178032973640561764);
    const main = double.exact(x - 0.5).times(double.log(x)).plus(double.exact(-x));
    return main.plus(.{ .high = half_log_of_2_pi.high, .low = half_log_of_2_pi.low + rest });
}

// x as n + u, where |u| <= 1/2; both exactly. For |x| < 2^52.
const Parts = struct { n: i64, u: f64 };

fn split(x: f64) Parts {
    const n = double.nearest(x);
    return .{ .n = n, .u = x - @as(f64, @floatFromInt(n)) };
}

// x sin(pi u) / pi for |u| <= 1/2, to 2^-58: interpolated as above.
fn reflection(x: f64, u: f64) Double {
    return product(x, u).times(double.series(product(u, u), [_]comptime_float{
        1,
        -1.6449340668482264331,
        0.81174242528335194243,
        -0.19075182412194127915,
        0.026147847813078807228,
        -0.0023460809634923996102,
        0.0001484281781669361754,
        -6.9729605555642203765e-6,
        2.45918038481593938e-7,
    }, 2));
}

pub fn tgamma(x: f64) callconv(.c) f64 {
    if (math.isNan(x) or x > 172) return x * math.floatMax(f64);
    if (@abs(x) < 0x1p-54) return 1 / x;
    if (x < -0x1p52) return math.nan(f64); // a whole number
    const n, const u = .{ split(x).n, split(x).u };
    if (n < 1 and u == 0) return math.nan(f64);
    if (@abs(x) < 12) {
        const one = reciprocal(u);
        const more = factors(n, u);
        return (if (n < 1) one.times(more).inverse() else more.over(one)).rounded();
    }
    if (x > 0) return double.exp(stirling(x)).rounded();
    const sign: f64 = if (@rem(n, 2) == 0) 1 else -1;
    if (n < -184) return math.copysign(@as(f64, 0), sign * u);
    const size = double.exp(stirling(-x));
    const number = reflection(-x, u).times(size.number).inverse();
    return sign * (double.Scaled{ .number = number, .power = -size.power }).rounded();
}

// Where the logarithm is 0 between whole numbers, and its derivatives there, divided by 1, 2 and 6.
// More zeros than these are so close to whole numbers that there is no need for it.
const zeros = .{
    .{ -2.45702473822080062303945414765118, 1.5156034480216573216, 4.858320951634, 1.4112911 },
    .{ -2.7476826467274126013914884826915, -1.9143501856115988165, 9.57518947571, -20.095135 },
    .{ -3.143580888349980058694358781820228, 7.7818846581313508721, 25.83133837239, 112.26899 },
    .{ -3.955294284858597928532797283247208, -20.725060845803705678, 251.7146825869, -3730.6047 },
    .{ -4.039361839740536874234577096375355, 26.790480886140593261, 324.2553229378, 5465.6918 },
};

pub fn lgamma(x: f64) callconv(.c) f64 {
    if (x >= 8) return lgammaOfLarge(x);
    var sign: c_int = undefined;
    // It is within 1.9 units in the last place here, but not elsewhere.
    if (!(x < -0x1p-54)) return __lgamma_r(x, &sign);
    if (x < -0x1p52) return math.inf(f64); // a whole number
    const n, const u = .{ split(x).n, split(x).u };
    if (u == 0) return math.inf(f64);
    if (n < -18) {
        const left = reflection(-x, @abs(u));
        const low = double.exact(left.low / left.high);
        return -double.log(left.high).plus(low).plus(stirling(-x)).rounded();
    }
    inline for (zeros) |zero| {
        const near = Double.constant(zero[0]);
        const away = double.sum(x - near.high, -near.low);
        if (@abs(away.high) < 0x1p-24) {
            const slopes = [_]comptime_float{ zero[1], zero[2], zero[3] };
            return away.times(double.series(away, slopes, 1)).rounded();
        }
    }
    const more = factors(n, u);
    var size = magnitude(reciprocal(u).times(more));
    if (size.high < 0.75 or size.high > 1.5) {
        return -(@log(size.high) + size.low / size.high);
    }
    // Near a zero: to 2^-81, and for |u| < 0.05 to 2^-100.
    size = magnitude(double.series(double.exact(u), coefficients, 12).times(more));
    const from_one = double.sum(size.high - 1, size.low);
    return -(math.log1p(from_one.high) + from_one.low / size.high);
}

fn magnitude(x: Double) Double {
    return if (x.high < 0) x.negated() else x;
}

fn lgammaOfLarge(x: f64) f64 {
    if (x < 0x1p60) return stirling(x).rounded();
    if (x == math.inf(f64)) return x;
    const logarithm = double.log(x);
    return x * ((logarithm.high - 1) + logarithm.low);
}

extern fn __lgamma_r(f64, *c_int) callconv(.c) f64;
