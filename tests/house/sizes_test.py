#!/usr/bin/env python3
"""sizes.py finds classes and functions as clang-format formats them, and compares their sizes with the
limits."""

import unittest

import sizes


def found(text, path="a.cc"):
    return {(size.kind, size.name): size.lines for size in sizes.sizes_of(sizes.pieces_of(path, text))}


def found_in(files):
    pieces = [piece for path, text in files.items() for piece in sizes.pieces_of(path, text)]
    return {(size.kind, size.name): size.lines for size in sizes.sizes_of(pieces)}


class Functions(unittest.TestCase):
    def test_a_function_is_counted_from_its_declaration_to_its_last_brace(self):
        self.assertEqual(
            found("/// What it does.\nint f(int a,\n      int b) {\n  // why\n\n  return a + b;\n}\n"),
            {("function", "f"): 6},
        )

    def test_one_line_is_a_function_of_one_line(self):
        self.assertEqual(found("int f() { return 1; }\n"), {("function", "f"): 1})

    def test_what_looks_like_a_function_and_is_none_is_not_counted(self):
        self.assertEqual(
            found(
                "int f(int a);\nconstexpr int kTable[] = {\n    1,\n    2};\nconst Thing kThing{f(1)};\n"
                "enum class Kind {\n  one,\n};\nusing Call = void (*)(int);\n#define F(x) void x() {\n"
            ),
            {},
        )

    def test_what_stands_in_a_function_belongs_to_it(self):
        self.assertEqual(
            found(
                "void f() {\n  struct Local {\n    int x = 0;\n  };\n"
                "  const auto g = [](int a) {\n    return a;\n  };\n"
                "  if (g(1)) {\n    return;\n  }\n}\nvoid h() {}\n"
            ),
            {("function", "f"): 11, ("function", "h"): 1},
        )

    def test_braces_in_texts_and_comments_and_of_other_conditions_are_no_braces(self):
        self.assertEqual(
            found(
                'void f() {\n  // }\n  say("}");\n  say(R"(}})");\n  put(\'}\');\n  /* } */\n'
                "#if A\n  if (a) {\n#else\n"
                "  if (b) {\n#endif\n  }\n  const int million = 1'000'000;\n}\n"
            ),
            {("function", "f"): 14},
        )

    def test_a_constructor_with_initialisers_is_one_function(self):
        self.assertEqual(
            found(
                "Thing::Thing(int a)\n"
                "    : a_{a}, b_(std::vector<int>{1, 2}), c_([this] { return a_; }) {\n  go();\n}\n"
            ),
            {("function", "Thing::Thing"): 4},
        )

    def test_templates_operators_and_results_of_functions_have_their_names(self):
        text = (
            "template <class T, class = std::enable_if_t<sizeof(T) == 4>>\n"
            "std::function<void(int)> make(T t = {}) {\n  return t;\n}\n"
            "bool operator==(const A& a, const A& b) {\n  return true;\n}\n"
            "auto Box<int>::get() const -> std::map<int, int> {\n  return {};\n}\n"
            "constexpr auto kTwice = [](int a) {\n  return 2 * a;\n};\n"
        )
        self.assertEqual(
            found(text),
            {
                ("function", "make"): 4,
                ("function", "operator_"): 3,
                ("function", "Box::get"): 3,
                ("function", "kTwice"): 3,
            },
        )


class Classes(unittest.TestCase):
    HEADER = (
        "namespace dabke {\n\nclass Job final : private Reports {\n public:\n"
        "  explicit Job(int a) : a_(a) {}\n  int run();\n\n"
        " private:\n  struct Part {\n    int x{0};\n    void go();\n  };\n  int a_ = 0;\n};\n\n"
        "}  // namespace dabke\n"
    )

    def test_a_class_has_its_body_and_its_members_in_all_files(self):
        sizes_found = found_in(
            {
                "job.h": self.HEADER,
                "job.cc": "namespace dabke {\nint Job::run() {\n  return 1;\n}\n}\n",
                "more.cc": "namespace dabke {\nvoid Job::Part::go() {\n  more();\n}\n"
                "int Job::stop() { return 2; }\n}\n",
            }
        )
        self.assertEqual(sizes_found[("class", "Job")], 12 + 3 + 1)
        self.assertEqual(sizes_found[("class", "Job::Part")], 4 + 3)
        self.assertEqual(sizes_found[("function", "Job::Job")], 1)
        self.assertEqual(sizes_found[("function", "Job::run")], 3)

    def test_classes_of_one_name_in_unnamed_namespaces_of_two_files_are_two(self):
        body = (
            "namespace dabke {\nnamespace {\nstruct Setup {\n  void go();\n};\n"
            "void Setup::go() {\n  x();\n}\n}\n}\n"
        )
        pieces = sizes.pieces_of("a.cc", body) + sizes.pieces_of("b.cc", body)
        self.assertEqual([size.lines for size in sizes.sizes_of(pieces) if size.kind == "class"], [6, 6])

    def test_a_function_of_a_namespace_is_no_member(self):
        self.assertEqual(
            found("class base {\n};\nint base_of(int a) {\n  return a;\n}\nvoid other::go() {\n}\n"),
            {("class", "base"): 2, ("function", "base_of"): 3, ("function", "other::go"): 2},
        )

    def test_a_declaration_and_a_variable_of_a_class_are_no_class(self):
        self.assertEqual(
            found(
                "class Job;\nstruct sigaction action {};\ntemplate <class T>\nvoid f(struct stat& s) {\n}\n"
            ),
            {("function", "f"): 3},
        )

    def test_a_brace_that_does_not_close_is_an_error(self):
        with self.assertRaises(ValueError):
            sizes.pieces_of("a.cc", "void f() {\n")


class Faults(unittest.TestCase):
    @staticmethod
    def sizes_with(lines):
        return sizes.sizes_of(sizes.pieces_of("a.cc", "void large() {\n" + "  go();\n" * (lines - 2) + "}\n"))

    def test_what_is_too_large_is_named_with_its_place_and_size(self):
        self.assertEqual(sizes.faults_in(self.sizes_with(60), {}), [])
        self.assertEqual(
            sizes.faults_in(self.sizes_with(61), {}),
            ["a.cc:1: function large has 61 lines, 60 are the most: cut it by its ideas"],
        )
        body = "class Large {\n" + "  int x;\n" * 399 + "};\n"
        self.assertEqual(len(sizes.faults_in(sizes.sizes_of(sizes.pieces_of("a.h", body)), {})), 1)

    def test_what_is_known_may_shrink_but_not_grow_and_its_row_must_go(self):
        known = {("function", "large"): 70}
        self.assertEqual(sizes.faults_in(self.sizes_with(70), known), [])
        self.assertEqual(sizes.faults_in(self.sizes_with(65), known), [])
        self.assertEqual(
            sizes.faults_in(self.sizes_with(71), known),
            ["a.cc:1: function large has 71 lines, 70 are the most: cut it by its ideas"],
        )
        self.assertIn("not needed any more", sizes.faults_in(self.sizes_with(60), known)[0])


if __name__ == "__main__":
    unittest.main()
