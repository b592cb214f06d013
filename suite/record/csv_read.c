/* CSV in, through libcsv's parser. Blanks inside fields are kept, a row must have the header's number of fields. */
#include <csv.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "suite/record/csv.h"

/* One parse. libcsv calls back for each field and each row end; the first failure is kept. */
typedef struct reader {
  mk_context *ctx;
  const char *path;
  ms_csv *table; /* NULL while the header is read */
  char *header[512];
  int n_header;
  int n_fields; /* of the current row */
  int64_t row;  /* records seen; equals the line where no field holds a line break */
  mk_status status;
} reader;

static int no_space(unsigned char c) {
  (void)c;
  return 0;
}

static mk_status header_field(reader *r, const char *text) {
  MK_CHECK(r->ctx, text[0] != '\0', MK_ERR_FORMAT, "%s:1: column %d has no name", r->path, r->n_header + 1);
  MK_CHECK(r->ctx, r->n_header < 512, MK_ERR_FORMAT, "%s:1: more than 512 columns", r->path);
  for (int i = 0; i < r->n_header; i++) {
    MK_CHECK(r->ctx, strcmp(r->header[i], text) != 0, MK_ERR_FORMAT, "%s:1: column '%s' is there twice", r->path, text);
  }
  MK_TRY(r->ctx, mk_heap_strdup(r->ctx, text, &r->header[r->n_header]));
  r->n_header += 1;
  return MK_OK;
}

static mk_status body_field(reader *r, const char *text) {
  if (r->n_fields == 0) MK_TRY(r->ctx, ms_csv_row_add(r->ctx, r->table));
  MK_CHECK(r->ctx, r->n_fields < r->table->n_columns, MK_ERR_FORMAT, "%s:%lld: more fields than the header's %d",
           r->path, (long long)r->row + 1, r->table->n_columns);
  MK_TRY(r->ctx, ms_csv_set(r->ctx, r->table, r->table->column[r->n_fields], text));
  r->n_fields += 1;
  return MK_OK;
}

static void on_field(void *text, size_t bytes, void *data) {
  reader *r = (reader *)data;
  if (r->status != MK_OK) return;
  if (memchr(text, '\0', bytes) != NULL) {
    r->status = MK_FAIL(r->ctx, MK_ERR_FORMAT, "%s:%lld: NUL byte in a field", r->path, (long long)r->row + 1);
    return;
  }
  r->status = r->table == NULL ? header_field(r, (const char *)text) : body_field(r, (const char *)text);
}

static mk_status row_end(reader *r) {
  r->row += 1;
  if (r->table == NULL) return ms_csv_create(r->ctx, (const char *const *)r->header, r->n_header, &r->table);
  MK_CHECK(r->ctx, r->n_fields == r->table->n_columns, MK_ERR_FORMAT, "%s:%lld: %d fields, the header has %d", r->path,
           (long long)r->row, r->n_fields, r->table->n_columns);
  r->n_fields = 0;
  return MK_OK;
}

static void on_row(int terminator, void *data) {
  reader *r = (reader *)data;
  (void)terminator;
  if (r->status == MK_OK) r->status = row_end(r);
}

static mk_status parse(reader *r, const char *text, size_t bytes) {
  struct csv_parser parser;
  mk_context *ctx = r->ctx;
  MK_CHECK(ctx, bytes == 0 || text[bytes - 1] == '\n', MK_ERR_FORMAT,
           "%s: the last line has no line end: the file was cut short (where it was not, end the line)", r->path);
  MK_CHECK(ctx, csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) == 0, MK_ERR_MEMORY,
           "%s: cannot start the CSV parser", r->path);
  csv_set_space_func(&parser, no_space);
  bool whole =
      csv_parse(&parser, text, bytes, on_field, on_row, r) == bytes && csv_fini(&parser, on_field, on_row, r) == 0;
  int code = csv_error(&parser);
  csv_free(&parser);
  if (r->status != MK_OK) return r->status;
  MK_CHECK(ctx, whole, MK_ERR_FORMAT, "%s:%lld: %s (a quote that is not closed or not doubled)", r->path,
           (long long)r->row + 1, csv_strerror(code == 0 ? CSV_EPARSE : code));
  MK_CHECK(ctx, r->table != NULL, MK_ERR_FORMAT, "%s: no header line", r->path);
  return MK_OK;
}

mk_status ms_csv_read(mk_context *ctx, const char *path, ms_csv **out) {
  mk_status st = MK_OK;
  char *text = NULL;
  size_t bytes = 0;
  reader r = {.ctx = ctx, .path = path};
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  MK_TRY_GOTO(ctx, parse(&r, text, bytes), out);
  *out = r.table;
  r.table = NULL;
out:
  for (int i = 0; i < r.n_header; i++)
    mk_heap_free(ctx, r.header[i]);
  ms_csv_destroy(ctx, r.table);
  mk_heap_free(ctx, text);
  return st;
}
