# SPDX-License-Identifier: GPL-2.0-only
# A small build whose sources and products lie in one directory: eight copies of unit.c, compiled two at a time.
units := 1 2 3 4 5 6 7 8

nix.o: $(patsubst %,unit-%.o,$(units))
	ld -r -o $@ $^
unit-%.o: unit-%.c
	gcc -O1 -c -DUNIT=$* -o $@ $<
