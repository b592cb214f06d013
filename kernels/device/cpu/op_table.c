/* The op tables of cpu and ref, made from the op list: a missing function fails the link. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/ops/op_decls.h"

static const mk_op_fn cpu_table[MK_OP_COUNT] = {
#define X(name) [MK_OP_##name] = mk_##name##_cpu,
    MK_OP_LIST(X)
#undef X
};

static const mk_op_fn ref_table[MK_OP_COUNT] = {
#define X(name) [MK_OP_##name] = mk_##name##_ref,
    MK_OP_LIST(X)
#undef X
};

const mk_op_fn *mk_cpu_op_table(void) { return cpu_table; }
const mk_op_fn *mk_ref_op_table(void) { return ref_table; }
