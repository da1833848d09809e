/* A program may have included a DLPack header older than 1.0. dabke.h then adds the types that it lacks. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The header of DLPack 0.6, shortened. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_VERSION 60
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  int device_id;
} DLDevice;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U } DLDataTypeCode;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
#endif

#include <dabke/dabke.h>
#include <dabke/dlpack.h>

/* The layout of the standard. */
_Static_assert(sizeof(DLTensor) == 48, "DLTensor");
_Static_assert(sizeof(DLManagedTensor) == 64, "DLManagedTensor");
_Static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8, "version comes first");
_Static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16, "deleter");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "flags");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "the tensor comes last");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "DLManagedTensorVersioned");

int main(void) {
  float x = 3;
  int64_t one = 1;
  DLTensor tensor = {&x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &one, NULL, 0};
  DLManagedTensorVersioned* output = NULL;
  dabke_handle* handle = NULL;
  int is_well = dabke_init(NULL) == DABKE_OK && dabke_allgather("x", &tensor, NULL, &handle) == DABKE_OK &&
                dabke_handle_output_dlpack_versioned(handle, 0, &output) == DABKE_OK;
  dabke_handle_free(handle);
  if (is_well) {
    is_well = output->version.major == DLPACK_MAJOR_VERSION && *(float*)output->dl_tensor.data == 3;
    output->deleter(output);
  }
  if (!is_well) printf("%s\n", dabke_last_error());
  return dabke_shutdown() != DABKE_OK || !is_well;
}
