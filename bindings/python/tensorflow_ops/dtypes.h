// TensorFlow's dtypes, in DLPack's terms.
#pragma once

#include "bindings/python/tensorflow_ops/tf_api.h"
#include "dabke/dabke.h"

namespace dabke::python::tensorflow {

/// The dtypes of a tensor of a collective, as the restriction of an attribute of an op.
inline constexpr char kTypeList[] =
    "T: list({bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, half, bfloat16, float, "
    "double}) >= 1";

/// DLPack's name of a dtype in that list.
DLDataType dlpack_of(TF_DataType type);

/// TensorFlow's number for one of the runtime's dtypes.
TF_DataType tensorflow_of(DLDataType type);

}  // namespace dabke::python::tensorflow
