// Keeps the texts of memories: short ones in the journal, longer ones as objects, named by hash.
import type { BlobStore } from '../../../platform/blob-store.ts';
import { isFault } from '../../../platform/daemon.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { fault } from '../../../wire/errors.ts';
import type { VersionContent } from '../journal/entry.ts';
import type { VersionRow } from '../store/schema.ts';

/** A longer text is an object. */
export const INLINE_BYTES_MAX = 4_096;

export type StoredText = Pick<VersionContent, 'text' | 'object' | 'size'>;

function measure(text: string): StoredText {
  const size = Buffer.byteLength(text);
  return size <= INLINE_BYTES_MAX ? { text, size } : { object: sha256Hex(text), size };
}

export type Texts = {
  /** Stores texts while `work` writes the entry that refers to them. */
  whileStored<T>(
    texts: readonly string[],
    work: (stored: readonly StoredText[]) => Promise<T>,
  ): Promise<T>;
  /** Null when it was forgotten. */
  load(row: Pick<VersionRow, 'text' | 'object'>): Promise<string | null>;
  /** For a transaction. Undefined: the object is missing or damaged. */
  loadNow(hash: string): string | undefined;
};

export function makeTexts({
  objects,
  textBytesMax,
}: {
  objects: BlobStore;
  textBytesMax: number;
}): Texts {
  /** An object is not removed before the entry that refers to it is written. */
  const keep = async <T>(
    texts: readonly string[],
    stored: readonly StoredText[],
    i: number,
    work: () => Promise<T>,
  ): Promise<T> => {
    const next = stored.findIndex(({ object }, at) => at >= i && object !== undefined);
    if (next < 0) return work();
    return objects.whileUsed(stored[next]!.object!, async () => {
      await objects.put(Buffer.from(texts[next]!));
      return keep(texts, stored, next + 1, work);
    });
  };
  return {
    async whileStored(texts, work) {
      const largest = texts.reduce((most, text) => Math.max(most, Buffer.byteLength(text)), 0);
      if (largest > textBytesMax)
        throw fault('too_large', `a memory may have up to ${textBytesMax} bytes of text`);
      const stored = texts.map(measure);
      return keep(texts, stored, 0, () => work(stored));
    },
    load: async ({ text, object }) =>
      object === null ? text : (await objects.get(object)).toString('utf8'),
    loadNow(hash) {
      try {
        return objects.getNow(hash).toString('utf8');
      } catch (error) {
        if (isFault(error, 'not_found') || isFault(error, 'storage_broken')) return undefined;
        throw error;
      }
    },
  };
}
