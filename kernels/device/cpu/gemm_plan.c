/* Tiles and tasks of a GEMM call. Tiles are large enough to amortise the packing inside oneDNN and small enough to
 * leave each thread several; tasks go out large to small, so that dynamic scheduling ends level. */
#include "kernels/base/min_max.h"
#include "kernels/device/cpu/gemm_parts.h"

enum { MANY_GROUPS = 8, LEAST_TASKS = 6, COL_UNIT = 64, ROWS_WIDENED = 256, ROWS_FLOAT = 512, COLS = 512 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* `width` split into equal tiles of at most `limit`, each a multiple of COL_UNIT. */
static int64_t level(int64_t width, int64_t limit) {
  int64_t count = mk_max(1, ceil_div(width, limit));
  return mk_max(COL_UNIT, ceil_div(ceil_div(width, count), COL_UNIT) * COL_UNIT);
}

static bool all_float(const mk_gemm_call *call) {
  return call->a.dtype == MK_F32 && call->b.dtype == MK_F32 && call->c.dtype == MK_F32;
}

/* Narrows the tiles until a call of `bands` bands of rows has enough tasks for a few threads: columns first, as a wgrad
 * tile is faster for each row of it that is long (`bench_ops gemm`). */
static void split(mk_gemm_tiles *tiles, int64_t bands, int64_t out, int64_t inner, bool keep_inner) {
  while (bands * ceil_div(out, tiles->cols) * ceil_div(inner, tiles->inner) < LEAST_TASKS) {
    int64_t *wider = tiles->cols > COL_UNIT || keep_inner ? &tiles->cols : &tiles->inner;
    if (*wider <= COL_UNIT) return;
    *wider = level(*wider, *wider / 2);
  }
}

mk_gemm_tiles mk_gemm_choose_tiles(const mk_gemm_call *call, bool native) {
  bool wgrad = call->kind == MK_GEMM_WGRAD, tall = all_float(call) && !native && call->groups >= MANY_GROUPS && !wgrad;
  int64_t out = mk_gemm_out_cols(call), inner = wgrad ? call->k : 1, bands = call->groups;
  mk_gemm_tiles tiles = {.rows = tall ? ROWS_FLOAT : ROWS_WIDENED, .inner = inner};
  tiles.cols = level(out, wgrad ? COLS / 2 : COLS);
  if (wgrad && !native) tiles.inner = level(inner, COLS); /* a native tile takes all of K */
  if (!wgrad) bands = mk_max(bands, ceil_div(call->a.dim[0], tiles.rows));
  split(&tiles, bands, out, inner, native || !wgrad);
  return tiles;
}

int64_t mk_gemm_task_bound(const mk_gemm_call *call, const mk_gemm_tiles *tiles) {
  int64_t across = ceil_div(mk_gemm_out_cols(call), tiles->cols);
  if (call->kind == MK_GEMM_WGRAD) return call->groups * across * ceil_div(call->k, tiles->inner);
  return (call->a.dim[0] / tiles->rows + call->groups) * across;
}

static int64_t group_begin(const mk_gemm_call *call, int64_t group) {
  return mk_tensor_present(&call->offsets) ? ((const int32_t *)call->offsets.data)[group] : 0;
}

static int64_t group_rows(const mk_gemm_call *call, int64_t group) {
  if (!mk_tensor_present(&call->offsets)) return call->a.dim[0];
  return group_begin(call, group + 1) - group_begin(call, group);
}

/* Shell sort of the groups by rows modulo `modulus`, largest first; ties keep a fixed order. In place, no memory. */
static void order_groups(const mk_gemm_call *call, int64_t modulus, int64_t *order) {
  int64_t n = call->groups;
  for (int64_t i = 0; i < n; i++)
    order[i] = i;
  for (int64_t gap = n / 2; gap > 0; gap /= 2) {
    for (int64_t i = gap; i < n; i++) {
      int64_t moving = order[i], key = group_rows(call, moving) % modulus, at = i;
      for (; at >= gap && group_rows(call, order[at - gap]) % modulus < key; at -= gap)
        order[at] = order[at - gap];
      order[at] = moving;
    }
  }
}

static int64_t emit_across(const mk_gemm_call *call, const mk_gemm_tiles *tiles, mk_gemm_task task,
                           mk_gemm_task *tasks) {
  int64_t made = 0, out = mk_gemm_out_cols(call);
  int64_t inner_end = call->kind == MK_GEMM_WGRAD ? call->k : 1, inner_step = mk_max(1, tiles->inner);
  for (task.inner = 0; task.inner < inner_end; task.inner += inner_step) {
    task.inners = mk_min(inner_step, inner_end - task.inner);
    for (task.col = 0; task.col < out; task.col += tiles->cols) {
      task.cols = mk_min(tiles->cols, out - task.col);
      tasks[made++] = task;
    }
  }
  return made;
}

int64_t mk_gemm_make_tasks(const mk_gemm_call *call, const mk_gemm_tiles *tiles, int64_t *order, mk_gemm_task *tasks) {
  bool wgrad = call->kind == MK_GEMM_WGRAD;
  int64_t made = 0;
  for (int64_t group = 0; group < call->groups && !wgrad; group++) {
    mk_gemm_task task = {.group = group, .row = group_begin(call, group), .rows = tiles->rows};
    int64_t full_end = task.row + group_rows(call, group) / tiles->rows * tiles->rows;
    for (; task.row < full_end; task.row += tiles->rows)
      made += emit_across(call, tiles, task, tasks + made);
  }
  int64_t modulus = wgrad ? INT64_MAX : tiles->rows;
  order_groups(call, modulus, order);
  for (int64_t i = 0; i < call->groups; i++) {
    int64_t rows = group_rows(call, order[i]), tail = rows % modulus;
    mk_gemm_task task = {.group = order[i], .row = group_begin(call, order[i]) + rows - tail, .rows = tail};
    if (tail > 0 || call->overwrite) made += emit_across(call, tiles, task, tasks + made);
  }
  return made;
}
