// Removes forgotten texts from artifacts: each one that has a copy refers to another blob, without
// it, and the blob goes with the last artifact that refers to it.
import type { BlobStore } from '../../../platform/blob-store.ts';
import type { Redactor } from '../../../platform/copies/redact.ts';
import { isFault } from '../../../platform/daemon.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { AgentdStore } from '../store/store.ts';

const PAGE = 50;
const UNUSED_MAX = 1_000;

export type EraseArtifactsDeps = {
  store: Pick<
    AgentdStore,
    'scanArtifacts' | 'replaceObject' | 'listUnusedObjects' | 'isObjectUnused' | 'forgetObject'
  >;
  blobs: BlobStore;
};

/** Resolves to the number of artifacts that had a copy. */
export async function eraseArtifacts(
  { store, blobs }: EraseArtifactsDeps,
  redactor: Redactor,
): Promise<number> {
  let found = 0;
  for (let after = ''; ; ) {
    const page = await store.scanArtifacts(after, PAGE);
    for (const { id, object_hash } of page) {
      const bytes = await readBlob(blobs, object_hash);
      const redacted = bytes && redactor.redactBytes(bytes);
      if (redacted === undefined || redacted === bytes) continue;
      await blobs.whileUsed(sha256Hex(redacted), async () => {
        await store.replaceObject(id, await blobs.put(redacted));
      });
      found++;
    }
    if (page.length < PAGE) break;
    after = page.at(-1)!.id;
  }
  for (const hash of await store.listUnusedObjects(UNUSED_MAX))
    if (await blobs.remove(hash, () => store.isObjectUnused(hash))) await store.forgetObject(hash);
  return found;
}

/** A lost or damaged blob has nothing that anybody could read. */
const readBlob = (blobs: BlobStore, hash: string): Promise<Buffer | undefined> =>
  blobs.get(hash).catch((error: unknown) => {
    if (isFault(error, 'not_found') || isFault(error, 'storage_broken')) return undefined;
    throw error;
  });
