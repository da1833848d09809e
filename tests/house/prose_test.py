#!/usr/bin/env python3
"""prose.py finds what it is there for, and leaves plain English alone."""

import pathlib
import unittest

import prose


def rules(name, source):
    return [fault.rule for fault in prose.faults_of(name, pathlib.Path(name), source)]


LONG = "word " * 31


class Prose(unittest.TestCase):
    def test_a_comment_without_its_noun_is_found(self):
        for word in prose.HEADLESS:
            self.assertEqual(rules("runtime/a.cc", f"/// {word} the thing does.\nint x;\n"), ["start"], word)
        self.assertEqual(rules("runtime/a.cc", "/// The number of ranks.\nint x;\n"), [])
        self.assertEqual(rules("runtime/a.cc", "/// Item by item.\nint x;\n"), [])

    def test_each_kind_of_comment_is_read(self):
        self.assertEqual(rules("a.h", "int x;  // What it is.\n"), ["start"])
        self.assertEqual(rules("a.h", "/* What it is. */\n"), ["start"])
        self.assertEqual(rules("a.js", "// What it is.\n"), ["start"])
        self.assertEqual(rules("a.py", '"""What it is."""\n'), ["start"])
        self.assertEqual(rules("a.py", "x = 1  # What it is.\n"), ["start"])
        self.assertEqual(rules("meson.build", "# What it is.\n"), ["start"])
        self.assertEqual(rules("run", "#!/usr/bin/env bash\n# What it is.\n"), ["start"])

    def test_a_comment_of_several_lines_begins_once(self):
        self.assertEqual(rules("a.h", "// The ranks.\n// What follows is a second sentence.\n"), [])
        self.assertEqual(rules("a.h", "int x;  // the ranks,\n        // which are many\n"), [])

    def test_text_in_literals_is_not_a_comment(self):
        self.assertEqual(rules("tests/a.cc", 'auto x = "// What it is.";\n'), [])
        self.assertEqual(rules("tests/a.cc", 'auto x = R"(/* What it is. */)";\n'), [])

    def test_a_long_sentence_is_found_across_lines(self):
        self.assertEqual(rules("a.h", f"// {LONG[:60]}\n// {LONG[60:]}\n"), ["sentence"])
        self.assertEqual(rules("a.md", LONG), ["line", "sentence"])
        self.assertEqual(
            rules("a.py", f'"""Text.\n\n    {LONG[:60]}\n    {LONG[60:]}\n    """\n'), ["sentence"]
        )
        half = "word " * 15
        self.assertEqual(rules("a.h", f"// {half}end.\n// {half}end.\n"), [])

    def test_items_of_a_list_and_cells_of_a_table_are_sentences_of_their_own(self):
        item = "word " * 18
        self.assertEqual(rules("a.md", f"- {item}\n- {item}\n"), [])
        self.assertEqual(rules("a.md", f"| {item} | {item} |\n"), [])

    def test_a_long_line_is_found_unless_it_cannot_be_broken(self):
        self.assertEqual(rules("a.cc", f"int x = {'1 + ' * 40}1;\n"), ["line"])
        self.assertEqual(rules("a.md", f"| {'cell ' * 10} | {'cell ' * 20} |\n"), [])
        self.assertEqual(rules("a.cc", f"// https://example.org/{'a' * 120}\n"), [])

    def test_a_program_that_a_test_writes_may_have_long_lines_and_a_docstring_may_not(self):
        self.assertEqual(rules("a.py", f'x = run(\n    """\n    {"1 + " * 40}1\n    """\n)\n'), [])
        self.assertEqual(rules("a.py", f'"""Text.\n\n{"a, b. " * 30}\n"""\n'), ["line"])

    def test_the_dialect_is_found_in_comments_and_in_what_the_product_prints(self):
        self.assertEqual(rules("a.h", "// The rank tells the others.\n"), ["dialect"])
        self.assertEqual(rules("launcher/a.cc", 'auto x = "this is no number";\n'), ["dialect"])
        self.assertEqual(
            rules("launcher/a.cc", 'auto x = "there is no GPU, and it is no longer used";\n'), []
        )
        self.assertEqual(rules("tests/a.cc", 'auto x = "this is no number";\n'), [])

    def test_code_in_a_text_is_not_read(self):
        self.assertEqual(rules("a.md", "Call `told()` first.\n\n```c\ntells(told);\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
