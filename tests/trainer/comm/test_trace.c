/* The trace: its lines, sharing between a world and its parts, more lines than the buffer holds, failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "trainer/comm/comm.h"

enum { TEXT_BYTES = 1 << 20 };

typedef struct fixture {
  mk_context ctx;
  mk_device *dev;
  mk_stream *stream;
  mt_comm *world;
  char path[64];
  void *memory;
} fixture;

static void open_fixture(fixture *f) {
  memset(f, 0, sizeof *f);
  mk_device_config config = {.name = "cpu", .threads = 1};
  mt_comm *inner = NULL;
  snprintf(f->path, sizeof f->path, "/tmp/moemark_trace_XXXXXX");
  close(mkstemp(f->path));
  ck_assert_int_eq(mk_device_create(&f->ctx, &config, &f->dev), MK_OK);
  ck_assert_int_eq(mk_stream_create(f->dev, "main", &f->stream), MK_OK);
  ck_assert_int_eq(mk_device_alloc(f->dev, MK_MEM_COMM, 1024, &f->memory), MK_OK);
  ck_assert_int_eq(mt_comm_self_create(&f->ctx, &inner), MK_OK);
  ck_assert_int_eq(mt_comm_trace_create(&f->ctx, inner, f->path, &f->world), MK_OK);
}

/* Ends all and returns the file. */
static const char *close_fixture(fixture *f) {
  static char text[TEXT_BYTES];
  mt_comm_destroy(f->world);
  mk_device_free(f->dev, MK_MEM_COMM, f->memory, 1024);
  mk_stream_destroy(f->stream);
  mk_device_destroy(f->dev);
  ck_assert_int_eq(f->ctx.heap_live, 0);
  FILE *file = fopen(f->path, "r");
  ck_assert_ptr_nonnull(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  unlink(f->path);
  text[n] = '\0';
  return text;
}

static mk_tensor tensor(fixture *f, mk_dtype dtype, int64_t first, int64_t count) {
  mk_tensor t = mk_tensor_1d(dtype, count);
  t.data = (char *)f->memory + first;
  return t;
}

START_TEST(one_line_a_call) {
  fixture f;
  open_fixture(&f);
  mt_comm *ep = NULL;
  mk_tensor a = tensor(&f, MK_F32, 0, 6), b = tensor(&f, MK_F32, 512, 6), half = tensor(&f, MK_BF16, 0, 5);
  mk_tensor rows = mk_tensor_as_2d(&a, 3, 2), rows_out = mk_tensor_as_2d(&b, 3, 2);
  const int64_t two = 2;
  ck_assert_int_eq(mt_comm_split(f.world, 0, 0, "ep", &ep), MK_OK);
  ck_assert_int_eq(mt_comm_all_reduce(f.world, &a, &a, MT_SUM, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_all_gather(ep, &half, &half, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_reduce_scatter(f.world, &a, &b, MT_MAX, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_all_to_all(ep, &a, &b, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_all_to_all_v(ep, &rows, &two, &rows_out, &two, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_broadcast(f.world, &half, 0, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_group_begin(ep), MK_OK);
  ck_assert_int_eq(mt_comm_send(ep, &a, 0, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_recv(ep, &b, 0, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_group_end(ep, f.stream), MK_OK);
  ck_assert_int_eq(mt_comm_barrier(f.world, f.stream), MK_OK);
  ck_assert_int_eq(f.world->calls, 4);
  ck_assert_int_eq(f.world->payload_bytes, 24 + 24 + 10);
  mt_comm_destroy(ep);
  ck_assert_str_eq(close_fixture(&f),
                   "op,purpose,dtype,count,bytes,size\n"
                   "all_reduce,world,f32,6,24,1\n"
                   "all_gather,ep,bf16,5,10,1\n"
                   "reduce_scatter,world,f32,6,24,1\n"
                   "all_to_all,ep,f32,6,24,1\n"
                   "all_to_all_v,ep,f32,4,16,1\n"
                   "broadcast,world,bf16,5,10,1\n"
                   "send,ep,f32,6,24,1\n"
                   "recv,ep,f32,6,0,1\n"
                   "barrier,world,-,0,0,1\n");
}
END_TEST

START_TEST(buffer_is_written_when_full_without_heap_calls) {
  fixture f;
  open_fixture(&f);
  mk_tensor a = tensor(&f, MK_F64, 0, 4);
  long long heap_calls = f.ctx.heap_calls;
  enum { CALLS = 10000 };
  for (int i = 0; i < CALLS; i++)
    ck_assert_int_eq(mt_comm_all_reduce(f.world, &a, &a, MT_SUM, f.stream), MK_OK);
  ck_assert_int_eq(f.ctx.heap_calls, heap_calls);
  const char *text = close_fixture(&f);
  int lines = 0;
  for (const char *at = strchr(text, '\n'); at != NULL; at = strchr(at + 1, '\n')) {
    lines += 1;
    if (at[1] != '\0') ck_assert_msg(strncmp(at + 1, "all_reduce,world,f64,4,32,1\n", 28) == 0, "line %d", lines);
  }
  ck_assert_int_eq(lines, CALLS + 1);
}
END_TEST

START_TEST(an_unwritable_path_is_an_io_error) {
  mk_context ctx = {0};
  mt_comm *inner = NULL, *trace = NULL;
  ck_assert_int_eq(mt_comm_self_create(&ctx, &inner), MK_OK);
  ck_assert_int_eq(mt_comm_trace_create(&ctx, inner, "/nonexistent/trace.csv", &trace), MK_ERR_OUTPUT);
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "/nonexistent/trace.csv"));
  mt_comm_destroy(inner);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* /dev/full refuses every write: the fault shows at the next poll. */
START_TEST(a_full_disk_shows_at_poll) {
  mk_context ctx = {0};
  mt_comm *inner = NULL, *trace = NULL;
  ck_assert_int_eq(mt_comm_self_create(&ctx, &inner), MK_OK);
  ck_assert_int_eq(mt_comm_trace_create(&ctx, inner, "/dev/full", &trace), MK_OK);
  ck_assert_int_eq(mt_comm_poll(trace), MK_OK);
  for (int i = 0; i < 10000; i++)
    ck_assert_int_eq(mt_comm_barrier(trace, NULL), MK_OK);
  ck_assert_int_eq(mt_comm_poll(trace), MK_ERR_OUTPUT);
  mt_comm_destroy(trace);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("trace");
  TCase *tc = tcase_create("trace");
  tcase_add_test(tc, one_line_a_call);
  tcase_add_test(tc, buffer_is_written_when_full_without_heap_calls);
  tcase_add_test(tc, an_unwritable_path_is_an_io_error);
  tcase_add_test(tc, a_full_disk_shows_at_poll);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
