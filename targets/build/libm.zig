// The functions of C's <math.h> that Zig has in its own standard library, and nowhere else.
const std = @import("std");
const math = std.math;

fn unary(comptime f: anytype, comptime T: type) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            return f(x);
        }
    }.call;
}

fn lgamma(comptime T: type, comptime reentrant: *const fn (T, *c_int) callconv(.c) T) *const fn (T) callconv(.c) T {
    return &struct {
        fn call(x: T) callconv(.c) T {
            var sign: c_int = undefined;
            return reentrant(x, &sign);
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

fn fdim(comptime T: type) *const fn (T, T) callconv(.c) T {
    return &struct {
        fn call(x: T, y: T) callconv(.c) T {
            return if (x <= y) 0 else x - y;
        }
    }.call;
}

extern fn __lgamma_r(f64, *c_int) callconv(.c) f64;
extern fn __lgammaf_r(f32, *c_int) callconv(.c) f32;

comptime {
    for (.{
        .{ "acos", math.acos },   .{ "acosh", math.acosh }, .{ "asin", math.asin }, .{ "asinh", math.asinh },
        .{ "atan", math.atan },   .{ "atanh", math.atanh }, .{ "cbrt", math.cbrt }, .{ "cosh", math.cosh },
        .{ "expm1", math.expm1 }, .{ "log1p", math.log1p }, .{ "sinh", math.sinh }, .{ "tanh", math.tanh },
    }) |each| {
        @export(unary(each[1], f64), .{ .name = each[0] });
        @export(unary(each[1], f32), .{ .name = each[0] ++ "f" });
    }
    for (.{ .{ f64, "" }, .{ f32, "f" } }) |each| {
        @export(hypot(each[0]), .{ .name = "hypot" ++ each[1] });
        @export(exp10(each[0]), .{ .name = "exp10" ++ each[1] });
        @export(fdim(each[0]), .{ .name = "fdim" ++ each[1] });
    }
    @export(lgamma(f64, __lgamma_r), .{ .name = "lgamma" });
    @export(lgamma(f32, __lgammaf_r), .{ .name = "lgammaf" });
}
