// Replaces a framework that NCCL is linked into: the symbols of NCCL can be found by name, but not by a file.
int ncclGetVersion(int* version) {
  *version = 22000;
  return 0;
}
