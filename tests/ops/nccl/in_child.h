// What is loaded into a process stays there, so each look at it has a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace dabke::test {

/// What `say` returns in a child of this process.
inline std::string in_child(const std::function<std::string()>& say) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = say();
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char some[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : "the child has crashed";
}

}  // namespace dabke::test
