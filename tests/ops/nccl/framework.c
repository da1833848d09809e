// Stands for a framework that NCCL is linked into: what it exports of NCCL can be looked for by name, and not by a file.
int ncclGetVersion(int* version) {
  *version = 22000;
  return 0;
}
