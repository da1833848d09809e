// Headers that most test programs include, compiled once for all of them.
#include <filesystem>
#include <fstream>
#include <random>

#include <catch2/catch.hpp>

#include "pch/library.h"
