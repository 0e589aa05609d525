// The functions of C's <math.h> that only Zig's own standard library has, or none within 2 units in the last place.
const std = @import("std");
const math = std.math;
const erfc = @import("libm_parts/erfc.zig").erfc;
const gamma = @import("libm_parts/gamma.zig");

fn unary(comptime f: anytype, comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            return f(x);
        }
    }.call;
}

fn hypot(comptime T: type) *const fn (T, T) callconv(.c) T {
    return &struct {
        fn call(x: T, y: T) callconv(.c) T {
            return math.hypot(x, y);
        }
    }.call;
}

fn exp10(comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        extern fn pow(f64, f64) callconv(.c) f64;
        fn call(x: T) callconv(.c) T {
            return @floatCast(pow(10, x));
        }
    }.call;
}

fn acosh(comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            return if (x < 1) math.nan(T) else math.acosh(x);
        }
    }.call;
}

// Above this the difference of 1 is lost, and Zig's would overflow too early.
fn expm1(comptime T: type, comptime large: *const fn (T) callconv(.c) T) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            return if (x > 80) large(x) else math.expm1(x);
        }
    }.call;
}

// Zig's overflows where its difference of 1 does, a little before half of that would: there it is the hyperbolic cosine.
fn sinh(comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            return if (@abs(x) > 80) math.copysign(math.cosh(x), x) else math.sinh(x);
        }
    }.call;
}

// The quotient is rounded once: with steps in f32 it is 2.04 units in the last place off.
fn tanhf(x: f32) callconv(.c) f32 {
    if (@abs(x) > 10) return math.copysign(@as(f32, 1), x);
    const grown: f64 = math.expm1(2 * @abs(x));
    return math.copysign(@as(f32, @floatCast(grown / (grown + 2))), x);
}

// Enough for f32, and faster than the one for f64.
fn coarseLgamma(x: f64) callconv(.c) f64 {
    var sign: c_int = undefined;
    return __lgamma_r(x, &sign);
}

// What in f32 is 2.6 units in the last place off, and near zeros more.
fn narrow(comptime f: *const fn (f64) callconv(.c) f64) *const fn (f32) callconv(.c) f32 {
    return &struct {
        fn call(x: f32) callconv(.c) f32 {
            return @floatCast(f(x));
        }
    }.call;
}

// To the nearest whole number, and to the even one of two; numbers from 2 to the power of the fraction's bits are whole.
fn rint(comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            const whole: T = 1 << math.floatFractionalBits(T);
            if (!(@abs(x) < whole)) return x;
            return math.copysign((@abs(x) + whole) - whole, x);
        }
    }.call;
}

// Whole numbers of 64 bits, as long and long long are on all of these CPUs; larger ones become the largest.
fn lrint(comptime T: type) *const fn (T) callconv(.c) i64 {
    return &struct {
        fn call(x: T) callconv(.c) i64 {
            return math.lossyCast(i64, rint(T)(x));
        }
    }.call;
}

fn lround(comptime T: type, comptime long: *const fn (T) callconv(.c) i64) *const fn (T) callconv(.c) i64 {
    return &struct {
        fn call(x: T) callconv(.c) i64 {
            return long(x);
        }
    }.call;
}

fn copysign(comptime T: type) *const fn (T, T) callconv(.c) T {
    return &struct {
        fn call(x: T, y: T) callconv(.c) T {
            return math.copysign(x, y);
        }
    }.call;
}

fn frexp(comptime T: type) *const fn (T, *c_int) callconv(.c) T {
    return &struct {
        fn call(x: T, exponent: *c_int) callconv(.c) T {
            const parts = math.frexp(x);
            exponent.* = parts.exponent;
            return parts.significand;
        }
    }.call;
}

fn modf(comptime T: type) *const fn (T, *T) callconv(.c) T {
    return &struct {
        fn call(x: T, whole: *T) callconv(.c) T {
            whole.* = @trunc(x);
            return math.copysign(if (math.isInf(x)) 0 else x - whole.*, x);
        }
    }.call;
}

fn fdim(comptime T: type) *const fn (T, T) callconv(.c) T {
    return &struct {
        fn call(x: T, y: T) callconv(.c) T {
            return if (x <= y) 0 else x - y;
        }
    }.call;
}

// The nearest of bf16's numbers, which are the upper halves of f32's. It is handed over as f16 is, which Zig knows.
fn truncsfbf2(x: f32) callconv(.c) f16 {
    const bits: u32 = @bitCast(x);
    const nan = @as(u16, @truncate(bits >> 16)) | 0x40;
    const nearest: u16 = @truncate((bits +% 0x7fff +% ((bits >> 16) & 1)) >> 16);
    return @bitCast(if (math.isNan(x)) nan else nearest);
}

// By way of f32, where what is cut off is kept as the last bit: the number is not rounded twice.
fn truncdfbf2(x: f64) callconv(.c) f16 {
    const near: f32 = @floatCast(x);
    const bits: u32 = @bitCast(near);
    const is_exact = math.isNan(x) or near == x or bits & 1 == 1;
    return truncsfbf2(if (is_exact) near else @bitCast(if (@abs(near) > @abs(x)) bits - 1 else bits + 1));
}

extern fn llround(f64) callconv(.c) i64;
extern fn llroundf(f32) callconv(.c) i64;
extern fn exp(f64) callconv(.c) f64;
extern fn expf(f32) callconv(.c) f32;
extern fn __lgamma_r(f64, *c_int) callconv(.c) f64;

comptime {
    @export(&truncsfbf2, .{ .name = "__truncsfbf2" });
    @export(&truncdfbf2, .{ .name = "__truncdfbf2" });
    for (.{
        .{ "acos", math.acos },   .{ "asin", math.asin }, .{ "asinh", math.asinh },
        .{ "atan", math.atan },   .{ "atanh", math.atanh }, .{ "cbrt", math.cbrt }, .{ "cosh", math.cosh },
        .{ "log1p", math.log1p },
    }) |each| {
        @export(unary(each[1], f64), .{ .name = each[0] });
        @export(unary(each[1], f32), .{ .name = each[0] ++ "f" });
    }
    for (.{ .{ f64, "" }, .{ f32, "f" } }) |each| {
        @export(sinh(each[0]), .{ .name = "sinh" ++ each[1] });
        @export(hypot(each[0]), .{ .name = "hypot" ++ each[1] });
        @export(exp10(each[0]), .{ .name = "exp10" ++ each[1] });
        for (.{ "rint", "nearbyint", "roundeven" }) |name| {
            @export(rint(each[0]), .{ .name = name ++ each[1] });
        }
        @export(acosh(each[0]), .{ .name = "acosh" ++ each[1] });
        for (.{ "lrint", "llrint" }) |name| {
            @export(lrint(each[0]), .{ .name = name ++ each[1] });
        }
        @export(copysign(each[0]), .{ .name = "copysign" ++ each[1] });
        @export(frexp(each[0]), .{ .name = "frexp" ++ each[1] });
        @export(modf(each[0]), .{ .name = "modf" ++ each[1] });
        @export(fdim(each[0]), .{ .name = "fdim" ++ each[1] });
    }
    @export(expm1(f64, exp), .{ .name = "expm1" });
    @export(expm1(f32, expf), .{ .name = "expm1f" });
    @export(lround(f64, llround), .{ .name = "lround" });
    @export(lround(f32, llroundf), .{ .name = "lroundf" });
    @export(unary(math.tanh, f64), .{ .name = "tanh" });
    @export(&tanhf, .{ .name = "tanhf" });
    @export(&erfc, .{ .name = "erfc" });
    @export(narrow(erfc), .{ .name = "erfcf" });
    @export(&gamma.tgamma, .{ .name = "tgamma" });
    @export(narrow(gamma.tgamma), .{ .name = "tgammaf" });
    @export(&gamma.lgamma, .{ .name = "lgamma" });
    @export(narrow(coarseLgamma), .{ .name = "lgammaf" });
}
