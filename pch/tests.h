// The same for the test programs.
#include <filesystem>
#include <fstream>
#include <random>

#include <catch2/catch.hpp>

#include "pch/library.h"
