// nanobind's own code, from wherever it is installed: Meson takes no source of another package by its path.
#include "nb_combined.cpp"
