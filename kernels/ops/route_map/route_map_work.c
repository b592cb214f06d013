/* Work of the route map: the route tables are streamed; the [S,E] tables are small. Counting reads the expert ids
 * twice, once to count and once to number. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/route_map/route_map.h"
#include "kernels/ops/work.h"

mk_work mk_route_count_work(const void *args, int64_t rows) {
  const mk_route_count_args *a = args;
  (void)rows;
  double bytes = (2 * mk_work_bytes(&a->idx) + mk_work_bytes(&a->position) + mk_work_bytes(&a->counts));
  return (mk_work){.flops = 2.0 * (double)mk_tensor_count(&a->idx), .bytes = bytes};
}

mk_work mk_route_map_work(const void *args, int64_t rows) {
  const mk_route_map_args *a = args;
  (void)rows;
  double bytes = (mk_work_bytes(&a->idx) + mk_work_bytes(&a->position) + mk_work_bytes(&a->dst_row) +
                  mk_work_bytes(&a->dst_rank) + mk_work_bytes(&a->requested) + mk_work_bytes(&a->keep));
  double flops = 3.0 * (double)(mk_tensor_count(&a->idx) + mk_tensor_count(&a->requested));
  return (mk_work){.flops = flops, .bytes = bytes};
}
