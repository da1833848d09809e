#include "bindings/python/tensorflow_ops/dtypes.h"

namespace dabke::python::tensorflow {
namespace {

struct Row {
  TF_DataType tensorflow;
  DLDataType dlpack;
};

constexpr Row kRows[] = {
    {TF_BOOL, {kDLBool, 8, 1}},     {TF_INT8, {kDLInt, 8, 1}},         {TF_INT16, {kDLInt, 16, 1}},
    {TF_INT32, {kDLInt, 32, 1}},    {TF_INT64, {kDLInt, 64, 1}},       {TF_UINT8, {kDLUInt, 8, 1}},
    {TF_UINT16, {kDLUInt, 16, 1}},  {TF_UINT32, {kDLUInt, 32, 1}},     {TF_UINT64, {kDLUInt, 64, 1}},
    {TF_HALF, {kDLFloat, 16, 1}},   {TF_BFLOAT16, {kDLBfloat, 16, 1}}, {TF_FLOAT, {kDLFloat, 32, 1}},
    {TF_DOUBLE, {kDLFloat, 64, 1}},
};

}  // namespace

DLDataType dlpack_of(TF_DataType type) {
  for (const Row& row : kRows) {
    if (row.tensorflow == type) return row.dlpack;
  }
  return {kDLOpaqueHandle, 8, 1};  // the runtime refuses it by the tensor's name
}

TF_DataType tensorflow_of(DLDataType type) {
  for (const Row& row : kRows) {
    if (row.dlpack.code == type.code && row.dlpack.bits == type.bits) return row.tensorflow;
  }
  return TF_UINT8;  // not reached: an output has the dtype of its input
}

}  // namespace dabke::python::tensorflow
