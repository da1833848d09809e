// The C functions of TensorFlow that this library calls. They are declared here, so no header of TensorFlow
// is in the build, and found in the libraries that the process has loaded.
//
// Source: tensorflow/c/{ops,kernels,tf_tensor,tf_status,tf_tstring}.h. The functions are the same from 2.16
// to 2.21.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace dabke::python::tensorflow {

struct TF_Status;
struct TF_Tensor;
struct TF_TString;
struct TF_OpDefinitionBuilder;
struct TF_ShapeInferenceContext;
struct TF_ShapeHandle;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;

/// TF_Code: the codes that this library uses.
enum TF_Code : int {
  TF_OK = 0,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
  TF_UNIMPLEMENTED = 12,
  TF_INTERNAL = 13,
};

/// TF_DataType: those that the runtime shares.
enum TF_DataType : int {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_UINT16 = 17,
  TF_HALF = 19,
  TF_UINT32 = 22,
  TF_UINT64 = 23,
};

inline constexpr std::size_t kTStringSize = 24;  // bytes of a TF_TString, on machines of 64 bits

using Deallocator = void (*)(void* data, std::size_t size_bytes, void* context);
using CreateKernel = void* (*)(TF_OpKernelConstruction*);
using Compute = void (*)(void* kernel, TF_OpKernelContext*);
using ComputeAsync = void (*)(void* kernel, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback* done);
using DeleteKernel = void (*)(void* kernel);
using InferShapes = void (*)(TF_ShapeInferenceContext*, TF_Status*);

// X(name, type): one row a function.
#define DABKE_TENSORFLOW_FUNCTIONS(X)                                                                        \
  X(TF_Version, const char*())                                                                               \
  X(TF_NewStatus, TF_Status*())                                                                              \
  X(TF_DeleteStatus, void(TF_Status*))                                                                       \
  X(TF_SetStatus, void(TF_Status*, TF_Code, const char*))                                                    \
  X(TF_SetPayload, void(TF_Status*, const char* key, const char* value))                                     \
  X(TF_GetCode, TF_Code(const TF_Status*))                                                                   \
  X(TF_Message, const char*(const TF_Status*))                                                               \
  X(TF_NewTensor, TF_Tensor*(TF_DataType, const std::int64_t*, int, void*, std::size_t, Deallocator, void*)) \
  X(TF_AllocateTensor, TF_Tensor*(TF_DataType, const std::int64_t*, int, std::size_t))                       \
  X(TF_DeleteTensor, void(TF_Tensor*))                                                                       \
  X(TF_TensorType, TF_DataType(const TF_Tensor*))                                                            \
  X(TF_NumDims, int(const TF_Tensor*))                                                                       \
  X(TF_Dim, std::int64_t(const TF_Tensor*, int))                                                             \
  X(TF_TensorByteSize, std::size_t(const TF_Tensor*))                                                        \
  X(TF_TensorData, void*(const TF_Tensor*))                                                                  \
  X(TF_TensorElementCount, std::int64_t(const TF_Tensor*))                                                   \
  X(TF_StringGetDataPointer, const char*(const TF_TString*))                                                 \
  X(TF_StringGetSize, std::size_t(const TF_TString*))                                                        \
  X(TF_NewOpDefinitionBuilder, TF_OpDefinitionBuilder*(const char*))                                         \
  X(TF_OpDefinitionBuilderAddAttr, void(TF_OpDefinitionBuilder*, const char*))                               \
  X(TF_OpDefinitionBuilderAddInput, void(TF_OpDefinitionBuilder*, const char*))                              \
  X(TF_OpDefinitionBuilderAddOutput, void(TF_OpDefinitionBuilder*, const char*))                             \
  X(TF_OpDefinitionBuilderSetIsStateful, void(TF_OpDefinitionBuilder*, bool))                                \
  X(TF_OpDefinitionBuilderSetShapeInferenceFunction, void(TF_OpDefinitionBuilder*, InferShapes))             \
  X(TF_RegisterOpDefinition, void(TF_OpDefinitionBuilder*, TF_Status*))                                      \
  X(TF_NewShapeHandle, TF_ShapeHandle*())                                                                    \
  X(TF_DeleteShapeHandle, void(TF_ShapeHandle*))                                                             \
  X(TF_ShapeInferenceContextScalar, TF_ShapeHandle*(TF_ShapeInferenceContext*))                              \
  X(TF_ShapeInferenceContextVectorFromSize, TF_ShapeHandle*(TF_ShapeInferenceContext*, std::size_t))         \
  X(TF_ShapeInferenceContextNumInputs, std::int64_t(TF_ShapeInferenceContext*))                              \
  X(TF_ShapeInferenceContextGetInput, void(TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))     \
  X(TF_ShapeInferenceContextSetOutput, void(TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))    \
  X(TF_ShapeInferenceContextRank, std::int64_t(TF_ShapeInferenceContext*, TF_ShapeHandle*))                  \
  X(TF_ShapeInferenceContextRankKnown, int(TF_ShapeInferenceContext*, TF_ShapeHandle*))                      \
  X(TF_ShapeInferenceContextSubshape, void(TF_ShapeInferenceContext*, TF_ShapeHandle*, std::int64_t,         \
                                           std::int64_t, TF_ShapeHandle*, TF_Status*))                       \
  X(TF_ShapeInferenceContextConcatenateShapes,                                                               \
    void(TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*, TF_ShapeHandle*, TF_Status*))          \
  X(TF_ShapeInferenceContextSetUnknownShape, void(TF_ShapeInferenceContext*, TF_Status*))                    \
  X(TF_NewKernelBuilder, TF_KernelBuilder*(const char*, const char*, CreateKernel, Compute, DeleteKernel))   \
  X(TF_NewAsyncKernelBuilder,                                                                                \
    TF_KernelBuilder*(const char*, const char*, CreateKernel, ComputeAsync, DeleteKernel))                   \
  X(TF_RegisterKernelBuilder, void(const char*, TF_KernelBuilder*, TF_Status*))                              \
  X(TF_OpKernelConstruction_GetAttrInt64,                                                                    \
    void(TF_OpKernelConstruction*, const char*, std::int64_t*, TF_Status*))                                  \
  X(TF_OpKernelConstruction_Failure, void(TF_OpKernelConstruction*, TF_Status*))                             \
  X(TF_NumInputs, int(TF_OpKernelContext*))                                                                  \
  X(TF_GetInput, void(TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                                    \
  X(TF_SetOutput, void(TF_OpKernelContext*, int, const TF_Tensor*, TF_Status*))                              \
  X(TF_ForwardInputOrAllocateOutput,                                                                         \
    TF_Tensor*(TF_OpKernelContext*, const int*, int, int, const std::int64_t*, int, int*, TF_Status*))       \
  X(TF_OpKernelContext_Failure, void(TF_OpKernelContext*, TF_Status*))

/// Pointers to those functions; `missing` names the ones that this TensorFlow lacks, which are null.
struct TensorflowApi {
#define X(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  DABKE_TENSORFLOW_FUNCTIONS(X)
#undef X
  std::string missing;
};

/// The functions of the TensorFlow in this process. They are looked up in the first call, and never change.
const TensorflowApi& tf();

}  // namespace dabke::python::tensorflow
