// Things that come and go by the thousand a second. A Set would do, but each time it makes itself
// anew the table it leaves points to the next: once one is old, all after it are kept with what
// they held until the whole heap is searched, and every collection copied the calls of long ago.

export class SwapRemoveSet<T extends { place: number }> {
  readonly #all: T[] = [];

  get size(): number {
    return this.#all.length;
  }

  all(): readonly T[] {
    return this.#all.slice();
  }

  add(one: T): void {
    one.place = this.#all.length;
    this.#all.push(one);
  }

  /** Does nothing when it is not there. */
  delete(one: T): void {
    if (this.#all[one.place] !== one) return;
    const last = this.#all.pop()!;
    if (last === one) return;
    this.#all[one.place] = last;
    last.place = one.place;
  }
}
