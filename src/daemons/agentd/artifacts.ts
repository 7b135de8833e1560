// Saves and loads artifacts: records that point to content-addressed blobs. A task sees those of
// its own thread, those among its inputs, and with team.artifacts those that the team shared.

import type { BlobStore } from '../../platform/blob-store.ts';
import type { NewId } from '../../platform/ids.ts';
import { sha256Hex } from '../../platform/json.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import {
  type ArtifactView,
  artifactSizeBytesMax,
  type PutArtifact,
  type TaskInput,
} from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { Label } from '../../wire/primitives.ts';
import type { ArtifactDiskReserve } from './artifact-disk-reserve.ts';
import { filterMarks } from './store/marks.ts';
import type { ArtifactRow, TaskRow } from './store/rows.ts';
import type { AgentdStore, RunCall } from './store/store.ts';

type ArtifactSource = {
  by: string;
  task: TaskRow | undefined;
  labels: Label[];
  call?: RunCall;
  once?: IdempotencyKey | undefined;
};
type Content = { artifact: ArtifactView; text: string | null; base64: string | null };

export type Artifacts = {
  save(input: PutArtifact, source: ArtifactSource): Promise<ArtifactRow>;
  load(id: string): Promise<Content>;
  loadForTask(id: string, task: TaskRow): Promise<Content>;
  /** For a briefing; of what is no text, its kind and size. */
  readText(id: string): Promise<{ name: string; text: string; labels: Label[] }>;
  /** Returns the marks that the inputs bring. Throws if `delegator` cannot see one of them. */
  checkInputs(inputs: readonly TaskInput[], delegator: TaskRow | undefined): Promise<Label[]>;
};

export type ArtifactDeps = {
  store: AgentdStore;
  blobs: BlobStore;
  diskReserve: ArtifactDiskReserve;
  newId: NewId;
  /** True if this task may read what the team has shared. */
  mayReadShared: (task: TaskRow) => Promise<boolean>;
};

const stripScheme = (ref: string | undefined): string => ref?.replace(/^artifact:\/\//, '') ?? '';

async function assertVisible(
  deps: Pick<ArtifactDeps, 'store' | 'mayReadShared'>,
  artifact: ArtifactView,
  task: TaskRow,
): Promise<void> {
  if (artifact.context_id === task.context_id) return;
  const inputs = JSON.parse(task.inputs) as TaskInput[];
  if (inputs.some(({ kind, id }) => kind === 'artifact_ref' && stripScheme(id) === artifact.id))
    return;
  if ((await deps.store.isShared(artifact.id)) && (await deps.mayReadShared(task))) return;
  throw fault('denied', `${artifact.id} belongs to another thread`, {
    hint: 'Ask its owner to pass it as an input.',
  });
}

const decoder = new TextDecoder('utf-8', { fatal: true });

function decodeContent(input: PutArtifact): Buffer {
  if ((input.text === undefined) === (input.base64 === undefined))
    throw fault('bad_request', 'an artifact needs either text or base64');
  const bytes =
    input.text === undefined
      ? Buffer.from(input.base64!, 'base64')
      : Buffer.from(input.text, 'utf8');
  if (bytes.length > artifactSizeBytesMax)
    throw fault('too_large', `an artifact may have up to ${artifactSizeBytesMax} bytes`);
  return bytes;
}

export function makeArtifacts(deps: ArtifactDeps): Artifacts {
  const { store, blobs, diskReserve, newId } = deps;
  const read = async (artifact: ArtifactView): Promise<Content> => {
    const bytes = await blobs.get(artifact.object_hash).catch(async (error: unknown) => {
      // It may have been pruned since its record was read: then this says so.
      await store.artifact(artifact.id);
      throw error;
    });
    if (!/^text\/|json|yaml|xml|javascript/.test(artifact.mime_type))
      return { artifact, text: null, base64: bytes.toString('base64') };
    try {
      return { artifact, text: decoder.decode(bytes), base64: null };
    } catch {
      return { artifact, text: null, base64: bytes.toString('base64') };
    }
  };
  const load = async (id: string): Promise<Content> => read(await store.artifact(id));
  return {
    load,
    async readText(id) {
      const { artifact, text } = await load(id);
      const { name, mime_type, size_bytes, labels } = artifact;
      return { name, text: text ?? `(${mime_type}, ${size_bytes} bytes)`, labels };
    },
    async save(input, source) {
      const bytes = decodeContent(input);
      const hash = sha256Hex(bytes);
      const storeBlob = () => blobs.put(bytes);
      const labels = [
        ...new Set<Label>([
          ...(source.task === undefined ? [] : (JSON.parse(source.task.labels) as Label[])),
          ...source.labels,
        ]),
      ];
      const record = {
        id: newId<string>('artifact'),
        name: input.name,
        mimeType:
          input.mime_type ?? (input.text === undefined ? 'application/octet-stream' : 'text/plain'),
        sizeBytes: bytes.length,
        hash,
        createdBy: source.by,
        taskId: source.task?.id ?? null,
        contextId: source.task?.context_id ?? null,
        labels,
      };
      return blobs.whileUsed(hash, async () => {
        // The reserve protects the disk from agents, not from people.
        await (source.call === undefined
          ? storeBlob()
          : diskReserve.reserveWhile(bytes.length, storeBlob));
        return store.putArtifact(record, source.call, source.once);
      });
    },
    async loadForTask(id, task) {
      const artifact = await store.artifact(id);
      await assertVisible(deps, artifact, task);
      return read(artifact);
    },
    async checkInputs(inputs, delegator) {
      const marks = new Set<Label>();
      for (const { kind, id, text } of inputs) {
        if (kind === 'text' && text === undefined)
          throw fault('bad_request', 'an input of kind text needs text');
        if (kind === 'memory_ref' && id === undefined)
          throw fault('bad_request', 'an input of kind memory_ref needs the id of a memory');
        if (kind !== 'artifact_ref') continue;
        const artifact = await store.artifact(stripScheme(id));
        if (delegator !== undefined) await assertVisible(deps, artifact, delegator);
        for (const label of filterMarks(artifact.labels)) marks.add(label);
      }
      return [...marks];
    },
  };
}
