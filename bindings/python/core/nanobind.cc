// The source code of nanobind, from the place where it is installed. Meson does not accept a source of
// another package by its path.
#include "nb_combined.cpp"
