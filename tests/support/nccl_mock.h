/* NCCL over host memory, for tests of comm_nccl*.c where there is no GPU: the functions of nccl.h that the backend
 * calls, between processes of one machine, through rings in shared memory.
 *
 * A cudaStream_t is an mk_stream of a cpu device here: calls go to it with mk_stream_call and so keep its order, also
 * on cpu_async. Sums run in rank order. Faults can be ordered. Not covered: whatever a GPU does. */
#ifndef TESTS_SUPPORT_NCCL_MOCK_H
#define TESTS_SUPPORT_NCCL_MOCK_H

#include "trainer/comm/comm_nccl.h"

/* Gives a cpu device's streams a native handle (themselves), as the mock wants it. For the one kind of device that the
 * program uses. */
void nccl_mock_adapt(mk_device *dev);

/* The map function to go with it. */
mk_status nccl_mock_map(mk_context *ctx, ncclComm_t native, ncclWindow_t window, mt_window *out);

/* From now on: the asynchronous state that every communicator reports, and the result of the next data call. */
void nccl_mock_set_async(ncclResult_t state);
void nccl_mock_fail_next(ncclResult_t result);

/* Depth of open groups; 0 after every call of the backend. */
int nccl_mock_group_depth(void);

#endif
