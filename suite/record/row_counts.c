/* See row_counts.h. */
#include "suite/record/row_counts.h"

#include <cjson/cJSON.h>

static const char KEY[] = "rows";

void ms_row_counts_add(cJSON *root, const char *name, int64_t rows) {
  cJSON *object = cJSON_GetObjectItemCaseSensitive(root, KEY);
  if (object == NULL) object = cJSON_AddObjectToObject(root, KEY);
  cJSON_AddNumberToObject(object, name, (double)rows);
}

mk_status ms_row_counts_check(mk_context *ctx, const cJSON *root, const char *folder, const char *json,
                              const char *name, const ms_csv *table) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, KEY), name);
  MK_CHECK(ctx, !cJSON_IsNumber(item) || item->valuedouble == (double)table->n_rows, MK_ERR_FORMAT,
           "%.400s/%s: %lld rows, but %s says %.0f: lines were lost or added; run the study again", folder, name,
           (long long)table->n_rows, json, item->valuedouble);
  return MK_OK;
}
