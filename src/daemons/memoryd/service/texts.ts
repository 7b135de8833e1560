// Keeps the texts of memories: short ones in the journal, longer ones as objects, named by hash.
import type { BlobStore } from '../../../platform/blob-store.ts';
import { isFault } from '../../../platform/daemon.ts';
import { fault } from '../../../wire/errors.ts';
import type { VersionContent } from '../journal/entry.ts';
import type { VersionRow } from '../store/schema.ts';

/** A longer text is an object. */
export const INLINE_BYTES_MAX = 4_096;

export type StoredText = Pick<VersionContent, 'text' | 'object' | 'size'>;

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
  const store = async (text: string): Promise<StoredText> => {
    const size = Buffer.byteLength(text);
    if (size <= INLINE_BYTES_MAX) return { text, size };
    const { hash } = await objects.put(Buffer.from(text));
    return { object: hash, size };
  };
  return {
    async whileStored(texts, work) {
      const largest = texts.reduce((most, text) => Math.max(most, Buffer.byteLength(text)), 0);
      if (largest > textBytesMax)
        throw fault('too_large', `a memory may have up to ${textBytesMax} bytes of text`);
      return work(await Promise.all(texts.map(store)));
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
