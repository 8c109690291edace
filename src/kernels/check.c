/* check.c - checks of arguments. */
#include "kernels/check.h"
#include "kernels/error.h"

#include <stdint.h>

enum tk_status tk_check_operands(const char *kernel, const struct tk_operand *operands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tk_operand *operand = &operands[i];
        if (operand->address == NULL && !operand->optional)
            return tk_error(TK_ERR_ARGUMENT, "%s: %s is NULL", kernel, operand->name);
        if ((uintptr_t)operand->address % operand->alignment != 0)
            return tk_error(TK_ERR_ARGUMENT, "%s: %s is at %p, no multiple of %zu bytes", kernel, operand->name,
                            operand->address, operand->alignment);
    }
    return TK_OK;
}

enum tk_status tk_check_type(const char *kernel, const char *name, enum tk_datatype type)
{
    if (tk_datatype_size(type) == 0)
        return tk_error(TK_ERR_ARGUMENT, "%s: %s %d is no datatype (0 is f32, 1 is bf16)", kernel, name, (int)type);
    return TK_OK;
}

enum tk_status tk_check_rows(const char *kernel, size_t rows, size_t width, size_t stride, enum tk_datatype type)
{
    size_t bytes;
    if (width == 0)
        return tk_error(TK_ERR_ARGUMENT, "%s: width is 0", kernel);
    if (width > INT32_MAX)
        return tk_error(TK_ERR_ARGUMENT, "%s: width %zu is more than 2^31 - 1", kernel, width);
    if (stride < width)
        return tk_error(TK_ERR_ARGUMENT, "%s: stride %zu is less than width %zu", kernel, stride, width);
    if (__builtin_mul_overflow(rows, stride, &bytes) || __builtin_mul_overflow(bytes, tk_datatype_size(type), &bytes) ||
        bytes > PTRDIFF_MAX)
        return tk_error(TK_ERR_ARGUMENT, "%s: %zu rows of %zu values do not fit into an address space", kernel, rows,
                        stride);
    return TK_OK;
}
