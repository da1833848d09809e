/* A program that only joins the job and leaves it. */
#include "dabke/dabke.h"

int main(void) {
  if (dabke_init(NULL) != DABKE_OK) return 1;
  return dabke_shutdown() == DABKE_OK ? 0 : 1;
}
