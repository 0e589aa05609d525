/* The memory functions that compilers know, under <string.h>'s names.
 *
 * Small copies of a known size become instructions; others are calls, which bitcode may make (not memcmp) and an object
 * may not. That is checked when the kernel is built.
 */
#ifndef OPSPLICE_STRING_H
#define OPSPLICE_STRING_H

#include <stddef.h>

#define memcpy(to, from, size) __builtin_memcpy(to, from, size)
#define memmove(to, from, size) __builtin_memmove(to, from, size)
#define memset(to, byte, size) __builtin_memset(to, byte, size)
#define memcmp(a, b, size) __builtin_memcmp(a, b, size)

#endif
