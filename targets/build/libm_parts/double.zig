// Numbers with twice the bits of an f64, their exponentials and logarithms: they keep a function of
// several steps from adding up the errors. Without fused operations, which x86's baseline lacks.
const math = @import("std").math;

/// The sum of two numbers; the low one is a few units in the last place of the high one at most.
pub const Double = struct {
    high: f64,
    low: f64,

    /// A number that is written in the source, to 106 bits.
    pub fn constant(comptime x: comptime_float) Double {
        const high: f64 = x;
        return .{ .high = high, .low = @floatCast(@as(f128, x) - high) };
    }

    pub fn plus(a: Double, b: Double) Double {
        const high = sum(a.high, b.high);
        return .{ .high = high.high, .low = high.low + (a.low + b.low) };
    }

    pub fn times(a: Double, b: Double) Double {
        const high = product(a.high, b.high);
        return .{ .high = high.high, .low = high.low + (a.high * b.low + a.low * b.high) };
    }

    pub fn over(a: Double, b: Double) Double {
        const high = a.high / b.high;
        const taken = product(high, b.high);
        const left = ((a.high - taken.high) - taken.low) + (a.low - high * b.low);
        return .{ .high = high, .low = left / b.high };
    }

    /// 1 / a
    pub fn inverse(a: Double) Double {
        return exact(1).over(a);
    }

    pub fn negated(a: Double) Double {
        return .{ .high = -a.high, .low = -a.low };
    }

    pub fn rounded(a: Double) f64 {
        return a.high + a.low;
    }
};

pub fn exact(x: f64) Double {
    return .{ .high = x, .low = 0 };
}

/// Exactly the sum of two numbers.
pub fn sum(a: f64, b: f64) Double {
    const high = a + b;
    const of_b = high - a;
    return .{ .high = high, .low = (a - (high - of_b)) + (b - of_b) };
}

/// As `sum`, where the first number is not smaller than the second.
pub fn ordered(a: f64, b: f64) Double {
    const high = a + b;
    return .{ .high = high, .low = b - (high - a) };
}

/// The product of two numbers, to 2^-105; without parts that are too large or small for an f64.
pub fn product(a: f64, b: f64) Double {
    const high = a * b;
    const x, const y = .{ halves(a), halves(b) };
    const low = (((x.high * y.high - high) + x.high * y.low) + x.low * y.high) + x.low * y.low;
    return .{ .high = high, .low = low };
}

// The upper 26 bits of a number, and the other 27.
fn halves(a: f64) Double {
    const high: f64 = @bitCast(@as(u64, @bitCast(a)) & (~@as(u64, 0) << 27));
    return .{ .high = high, .low = a - high };
}

/// A polynomial, by its coefficients from the lowest; a CPU computes even and odd powers at once.
pub fn polynomial(x: f64, coefficients: anytype) f64 {
    const square = x * x;
    var parts = [2]f64{ 0, 0 };
    inline for (0..coefficients.len) |each| {
        const power = coefficients.len - 1 - each;
        parts[power % 2] = parts[power % 2] * square + coefficients[power];
    }
    return parts[0] + x * parts[1];
}

/// As `polynomial`, of which the first few coefficients, and the steps with them, have all bits.
pub fn series(x: Double, comptime coefficients: anytype, comptime doubles: usize) Double {
    comptime var rounded: [coefficients.len]f64 = undefined;
    inline for (coefficients, &rounded) |each, *place| place.* = each;
    var result = Double{ .high = polynomial(x.high, comptime rounded[doubles..].*), .low = 0 };
    inline for (0..doubles) |each| {
        result = result.times(x).plus(Double.constant(coefficients[doubles - 1 - each]));
    }
    return result;
}

/// The nearest whole number, of one that an i64 holds.
pub fn nearest(x: f64) i64 {
    return @intFromFloat(x + math.copysign(@as(f64, 0.5), x));
}

/// A number times a power of two.
pub const Scaled = struct {
    number: Double,
    power: i64,

    pub fn rounded(a: Scaled) f64 {
        const half = @divTrunc(a.power, 2); // the whole may be no f64
        return a.number.rounded() * powerOfTwo(half) * powerOfTwo(a.power - half);
    }
};

fn powerOfTwo(power: i64) f64 {
    return @bitCast(@as(u64, @intCast(power + 1023)) << 52);
}

// The bits of the upper part leave room for its product with an exponent of two.
const log_of_2 = Double{
    .high = 0x1.62e42fefa38p-1,
    .low = 0.693147180559945309417232121458176568 - 0x1.62e42fefa38p-1,
};

/// e to the power of a number between -1400 and 1400, to 2^-56 of it.
pub fn exp(x: Double) Scaled {
    const power = nearest(x.high / log_of_2.high);
    const count: f64 = @floatFromInt(power);
    const rest = sum(x.high - count * log_of_2.high, x.low - count * log_of_2.low);
    // (e^r - 1 - r) / r^2 to 2^-58 for |r| <= log(2) / 2: interpolated at the zeros of Chebyshev's
    // polynomial.
    const above = polynomial(rest.high, [_]f64{
        0.5,
        0.1666666666666667103,
        0.04166666666666666978,
        0.00833333333332608312,
        0.001388888888888371117,
        0.0001984126987500227879,
        2.48015873256774619e-5,
        2.755725517000088744e-6,
        2.755727347871858047e-7,
        2.510531272962210179e-8,
        2.09147553258932022e-9,
    });
    const whole = ordered(1, rest.high);
    const low = rest.low + rest.high * rest.low + rest.high * rest.high * above;
    return .{ .number = ordered(whole.high, whole.low + low), .power = power };
}

/// The logarithm of a positive number, to 2^-64.
pub fn log(x: f64) Double {
    const parts = math.frexp(x);
    const near: u32 = @intFromFloat(32 * parts.significand + 0.5);
    const step = @as(f64, @floatFromInt(near)) / 32;
    const away = parts.significand - step;
    const s = exact(away).over(sum(parts.significand, step));
    const square = s.high * s.high;
    // log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + s^5 / 5 + ...), where |s| < 1 / 63.
    const inner = [_]f64{ 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0 };
    const rest = s.high * square * polynomial(square, inner);
    const small = Double{ .high = 2 * s.high, .low = 2 * s.low + rest };
    const count: f64 = @floatFromInt(parts.exponent);
    const power = sum(count * log_of_2.high, count * log_of_2.low);
    return power.plus(logs[near - 16]).plus(small);
}

// The logarithms of 16 / 32, 17 / 32 and so on.
const logs = blk: {
    const decimals = .{
        -0.693147180559945309417232121458176568,  -0.632522558743510466836625989417756305,
        -0.575364144903561854878438011987654863,  -0.521296923633286087077133175403029303,
        -0.470003629245735553650937031148342065,  -0.421213465076303550585562626925177406,
        -0.374693449441410693606984907867576972,  -0.330241686870576856279407775480686722,
        -0.287682072451780927439219005993827432,  -0.246860077931525797884641940838507561,
        -0.207639364778244501615441044267387667,  -0.169899036795397472900424896523305726,
        -0.133531392624522623146343620931349975,  -0.0984400728132525199028885749289712349,
        -0.0645385211375711716729239156839929281, -0.0317486983145803011569962827485256299,
        0,
    };
    var made: [decimals.len]Double = undefined;
    for (decimals, &made) |each, *place| place.* = Double.constant(each);
    break :blk made;
};
