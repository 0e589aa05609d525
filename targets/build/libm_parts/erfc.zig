// C's complement of the error function.
const math = @import("std").math;
const double = @import("double.zig");

// erf(x) / x as a polynomial in x^2 for |x| <= 1, to 2^-62: interpolated at the zeros of
// Chebyshev's polynomial.
const central = [_]comptime_float{
    1.12837916709551257376578502433483038,
    -0.37612638903183748055677714751675572,
    0.11283791670954878666,
    -0.026866170645076793248,
    0.0052239776248180144673,
    -8.5483269808337899052e-4,
    1.2055331111642710923e-4,
    -1.4925595266831181565e-5,
    1.6461000484121368033e-6,
    -1.6350312701054695011e-7,
    1.4659775274047435814e-8,
    -1.137284885679167367e-9,
    5.9571761477489114044e-11,
};

// (1 + 2 x) e^(x^2) erfc(x) as a polynomial in (x - 3.5) / (x + 3.5) for 0 <= x <= 28, to 2^-58:
// interpolated as above.
const outer = [_]comptime_float{
    1.24234924487115437532076120468608163,
    -0.14000918013761940682,
    -0.010555596332216719335,
    0.097519095153256400613,
    -0.11508959816029004439,
    0.087983153824962730695,
    -0.048823325825492984492,
    0.019099330940569063268,
    -0.0042150199384151305055,
    -3.022678590732154937e-4,
    5.6438464699392238271e-4,
    -1.2151253078729825221e-4,
    -4.2783309692173312202e-5,
    2.4261353276664710539e-5,
    2.3315822823143540263e-6,
    -3.8154759228015780091e-6,
    -5.0634892536190964909e-8,
    6.0207602262524007385e-7,
    -1.5499690462950355799e-10,
    -9.5227377710958605898e-8,
    -4.7756825924049798497e-9,
    1.1900522717370351641e-8,
    1.591919179677094461e-9,
    -4.571590658025725446e-10,
};

pub fn erfc(x: f64) callconv(.c) f64 {
    if (math.isNan(x)) return x;
    const size = @abs(x);
    if (size > 28) return if (x < 0) 2 else 0;
    const square = double.product(x, x);
    if (size < 1) {
        const erf = double.series(square, central, 2).times(double.exact(x));
        return double.exact(1).plus(erf.negated()).rounded();
    }
    const power = double.exp(square.negated());
    const near = double.series(double.exact((size - 3.5) / (size + 3.5)), outer, 1);
    const number = power.number.times(near).over(double.sum(1, 2 * size));
    const result = (double.Scaled{ .number = number, .power = power.power }).rounded();
    return if (x < 0) 2 - result else result;
}
