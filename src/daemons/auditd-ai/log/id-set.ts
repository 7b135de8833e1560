// IdSet finds ids that occur twice, in 8 bytes per slot: ids are stored as 64-bit fingerprints. A
// hit is only a suspicion; the caller compares the real ids.

const SLOTS_FIRST = 1 << 16;

export class IdSet {
  #slots = new Uint32Array(2 * SLOTS_FIRST);
  #count = 0;

  /** Returns true if this id or, very rarely, one with the same fingerprint was added before. */
  add(id: string): boolean {
    let high = 0x811c9dc5;
    let low = 0x9e3779b9;
    for (let i = 0; i < id.length; i += 1) {
      const code = id.charCodeAt(i);
      high = Math.imul(high ^ code, 0x01000193);
      low = Math.imul((low << 5) ^ (low >>> 27) ^ code, 0x85ebca6b);
    }
    // 0,0 marks an empty slot, so no fingerprint may be 0,0.
    const isKnown = this.#insert(high >>> 0, (low ^ (low >>> 15)) >>> 0 || 1);
    if (!isKnown && this.#count * 3 > this.#slots.length) this.#grow();
    return isKnown;
  }

  #insert(high: number, low: number): boolean {
    const slots = this.#slots;
    const mask = slots.length / 2 - 1;
    let slot = (high ^ Math.imul(low, 0x27d4eb2f)) & mask;
    while (slots[2 * slot] !== 0 || slots[2 * slot + 1] !== 0) {
      if (slots[2 * slot] === high && slots[2 * slot + 1] === low) return true;
      slot = (slot + 1) & mask;
    }
    slots[2 * slot] = high;
    slots[2 * slot + 1] = low;
    this.#count += 1;
    return false;
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Uint32Array(old.length * 2);
    this.#count = 0;
    for (let at = 0; at < old.length; at += 2) {
      if (old[at] !== 0 || old[at + 1] !== 0) this.#insert(old[at]!, old[at + 1]!);
    }
  }
}
