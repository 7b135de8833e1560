// Artifacts: a record that points to a content-addressed blob. A task sees those of its own thread
// and those it was given.
import type { NewId } from '../../platform/ids.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import {
  type ArtifactView,
  artifactSizeBytesMax,
  type PutArtifact,
  type TaskInput,
} from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { Label } from '../../wire/primitives.ts';
import type { BlobStore } from './adapters/blob-store.ts';
import type { ArtifactRoom } from './artifact-disk-reserve.ts';
import { spreading } from './store/marks.ts';
import type { ArtifactRow, TaskRow } from './store/rows.ts';
import type { AgentdStore, RunCall } from './store/store.ts';

type Maker = {
  by: string;
  task: TaskRow | undefined;
  labels: Label[];
  call?: RunCall;
  once?: IdempotencyKey | undefined;
};
type Content = { artifact: ArtifactView; text: string | null; base64: string | null };

export type Artifacts = {
  put(input: PutArtifact, maker: Maker): Promise<ArtifactRow>;
  get(id: string): Promise<Content>;
  getForTask(id: string, task: TaskRow): Promise<Content>;
  /**
   * Inputs that a new task could not be given are refused; `giver` may pass on what it sees. The
   * marks they bring are the answer.
   */
  checkInputs(inputs: readonly TaskInput[], giver: TaskRow | undefined): Promise<Label[]>;
};

const bareId = (ref: string | undefined): string => ref?.replace(/^artifact:\/\//, '') ?? '';

function assertSeen(artifact: ArtifactView, task: TaskRow): void {
  if (artifact.context_id === task.context_id) return;
  const inputs = JSON.parse(task.inputs) as TaskInput[];
  if (inputs.some(({ kind, id }) => kind === 'artifact_ref' && bareId(id) === artifact.id)) return;
  throw fault('denied', `${artifact.id} belongs to another thread of work`, {
    hint: 'Ask whoever has it to pass it on as an input.',
  });
}

const decoder = new TextDecoder('utf-8', { fatal: true });

function bytesOf(input: PutArtifact): Buffer {
  if ((input.text === undefined) === (input.base64 === undefined))
    throw fault('bad_request', 'an artifact has either text or base64');
  const bytes =
    input.text === undefined
      ? Buffer.from(input.base64!, 'base64')
      : Buffer.from(input.text, 'utf8');
  if (bytes.length > artifactSizeBytesMax)
    throw fault('too_large', `an artifact may have at most ${artifactSizeBytesMax} bytes`);
  return bytes;
}

export function makeArtifacts({
  store,
  blobs,
  room,
  newId,
}: {
  store: AgentdStore;
  blobs: BlobStore;
  room: ArtifactRoom;
  newId: NewId;
}): Artifacts {
  const read = async (artifact: ArtifactView): Promise<Content> => {
    const bytes = await blobs.get(artifact.object_hash);
    if (!/^text\/|json|yaml|xml|javascript/.test(artifact.mime_type))
      return { artifact, text: null, base64: bytes.toString('base64') };
    try {
      return { artifact, text: decoder.decode(bytes), base64: null };
    } catch {
      return { artifact, text: null, base64: bytes.toString('base64') };
    }
  };
  return {
    async put(input, maker) {
      const bytes = bytesOf(input);
      const keep = () => blobs.put(bytes);
      // A person sees for themselves whether there is room.
      const { hash } = await (maker.call === undefined ? keep() : room.during(bytes.length, keep));
      const labels = [
        ...new Set<Label>([
          ...(maker.task === undefined ? [] : (JSON.parse(maker.task.labels) as Label[])),
          ...maker.labels,
        ]),
      ];
      return store.putArtifact(
        {
          id: newId('artifact'),
          name: input.name,
          mimeType:
            input.mime_type ??
            (input.text === undefined ? 'application/octet-stream' : 'text/plain'),
          sizeBytes: bytes.length,
          hash,
          createdBy: maker.by,
          taskId: maker.task?.id ?? null,
          contextId: maker.task?.context_id ?? null,
          labels,
        },
        maker.call,
        maker.once,
      );
    },
    get: async (id) => read(await store.artifact(id)),
    async getForTask(id, task) {
      const artifact = await store.artifact(id);
      assertSeen(artifact, task);
      return read(artifact);
    },
    async checkInputs(inputs, giver) {
      const marks = new Set<Label>();
      for (const { kind, id, text } of inputs) {
        if (kind === 'text' && text === undefined)
          throw fault('bad_request', 'an input of kind text needs its text');
        if (kind === 'memory_ref')
          throw fault('bad_request', `the memory ${id} cannot be given: there is no memoryd here`, {
            hint: 'Give it as a text or as an artifact.',
          });
        if (kind !== 'artifact_ref') continue;
        const artifact = await store.artifact(bareId(id));
        if (giver !== undefined) assertSeen(artifact, giver);
        for (const label of spreading(artifact.labels)) marks.add(label);
      }
      return [...marks];
    },
  };
}
