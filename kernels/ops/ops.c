/* Names and work functions by id, made from the op list. */
#include "kernels/ops/ops.h"

#include "kernels/ops/op_decls.h"

static const char *const op_names[MK_OP_COUNT] = {
#define X(name) [MK_OP_##name] = #name,
    MK_OP_LIST(X)
#undef X
};

static const mk_work_fn work_fns[MK_OP_COUNT] = {
#define X(name) [MK_OP_##name] = mk_##name##_work,
    MK_OP_LIST(X)
#undef X
};

const char *mk_op_name(mk_op_id op) { return (int)op >= 0 && op < MK_OP_COUNT ? op_names[op] : "?"; }

mk_work mk_op_work(mk_op_id op, const void *args, int64_t rows) { return work_fns[op](args, rows); }
