// Operations of boxfs for layered workspaces: lists changes, reads their texts, and installs them
// in a directory; each in frames that take a short time.
import { fault } from '../../../wire/errors.ts';
import { decodeChanges, encodeChanges, type LayerChange } from './boxfs-changes.ts';
import {
  type CopiedPage,
  type CopyPage,
  decodeCopied,
  encodeCopy,
  encodeGive,
} from './boxfs-copies.ts';
import { statusFault } from './boxfs-faults.ts';
import {
  batchSteps,
  type CheckedStep,
  decodeCheck,
  decodeInstall,
  encodeInstall,
  type InstallFrame,
  type InstallOutcome,
  type InstallStep,
} from './boxfs-install.ts';
import {
  type CoveredFiles,
  type DirectoryInodes,
  decodeCovered,
  decodeDirectories,
  encodeCovered,
  encodeDirectories,
} from './boxfs-originals.ts';
import {
  type ChangeTexts,
  decodeReadMany,
  encodeReadMany,
  READ_MANY_MAX,
  type TextsQuery,
} from './boxfs-texts.ts';
import type { Fields, FrameHeader, RootedPath } from './boxfs-wire.ts';

/** Roots of a layered workspace: what the agent sees, what it wrote, and what was there before. */
export type LayerPlaces = {
  merged: string;
  /** The record instead, if it is a copy. */
  upper: string;
  lower: string;
  isCopy?: boolean;
};

export type InstallJob = {
  /** Where the new content is; where it has to be; where the old content is kept, null: nowhere. */
  from: string;
  to: string;
  undo: string | null;
  /** Where content is that steps would change before it is read, and what was put there before. */
  staging: string | null;
  applyId: string;
  /** In an order that `planInstall` made. */
  steps: readonly InstallStep[];
  /** An earlier run may have been interrupted: what it left behind is removed. */
  isRepeat?: boolean;
};

export type BoxfsLayers = {
  /** Lists what an agent changed, sorted by path; a page at a time, so that memory is bounded. */
  listChanges(places: LayerPlaces, pageMax?: number, after?: string): AsyncGenerator<LayerChange>;
  /** The files of the lower directory that files of the upper one have taken the place of. */
  listCovered(places: Pick<LayerPlaces, 'upper' | 'lower'>, max: number): Promise<CoveredFiles>;
  listDirectories(root: string, max: number): Promise<DirectoryInodes>;
  /** One page of a copy of `lower`, which continues behind `after`. */
  copyTree(places: LayerPlaces, page: CopyPage): Promise<CopiedPage>;
  /**
   * In a box with an owner's rights, gives what this user made in the directory to the owner of its
   * root. Resolves to the number of files.
   */
  giveToOwner(directory: string): Promise<number>;
  readMany(roots: { before: string; after: string }, query: TextsQuery): Promise<ChangeTexts[]>;
  /** Stops behind the first batch that has a conflict or a failure; later steps are `skipped`. */
  install(job: InstallJob): Promise<InstallOutcome[]>;
  /** Finds out what would be in the way, and changes nothing. */
  checkInstall(job: InstallJob): Promise<CheckedStep[]>;
};

export type SendFrame = <T>(
  encode: (id: number) => Buffer,
  read: (head: FrameHeader, fields: Fields) => T,
  what: { waitMs: number; name: string },
) => Promise<T>;

/** The time limit of the child process that boxfs starts, and some seconds. */
const WORKER_WAIT_MS = 45_000;
const INSTALL_WAIT_MS = 135_000;

type LayersContext = { send: SendFrame; locate(path: string): RootedPath };

export function makeBoxfsLayers({ send, locate }: LayersContext): BoxfsLayers {
  const rootOf = (path: string): number => {
    const found = locate(path);
    if (found.path !== '') throw fault('bad_request', `${path} is not a root`);
    return found.root;
  };

  const sendSteps = <T>(
    job: InstallFrame,
    read: (fields: Fields, steps: readonly InstallStep[]) => T,
  ): Promise<T> =>
    send(
      (id) => encodeInstall(id, job),
      (head, fields) => {
        if (head.status !== 0) throw statusFault(head.status, job.steps[0]!.path, fields.text());
        return read(fields, job.steps);
      },
      { waitMs: INSTALL_WAIT_MS, name: `installing ${job.steps.length} files` },
    );

  /** Copies the files that a later step may read no more, and returns where each step reads. */
  const stage = async (job: InstallJob): Promise<InstallOutcome | undefined> => {
    const steps = job.steps.flatMap((step) =>
      isStaged(job, step) && step.source === 'copy' ? [{ ...step, before: null }] : [],
    );
    const [from, to] = [locate(job.from), locate(job.staging ?? job.from)];
    for (const batch of batchSteps(steps)) {
      const { applyId } = job;
      const flags = ['stage', 'repeat'] as const;
      const frame = { from, to, undo: null, applyId, flags, steps: batch };
      const bad = (await sendSteps(frame, decodeInstall)).find(isBad);
      if (bad !== undefined) return bad;
    }
    return undefined;
  };

  /** Batches with the place that their content comes from. */
  const planFrames = (
    job: InstallJob,
    isElsewhere: (step: InstallStep) => boolean,
  ): { from: string; steps: InstallStep[] }[] => {
    const runs: { from: string; steps: InstallStep[] }[] = [];
    for (const step of job.steps) {
      const from = isElsewhere(step) ? job.staging! : job.from;
      const last = runs.at(-1);
      if (last === undefined || last.from !== from) runs.push({ from, steps: [step] });
      else last.steps.push(step);
    }
    return runs.flatMap(({ from, steps }) => batchSteps(steps).map((b) => ({ from, steps: b })));
  };

  return {
    async *listChanges({ merged, upper, lower, isCopy = false }, pageMax = 10_000, start = '') {
      const numbers = [rootOf(merged), rootOf(upper), rootOf(lower)] as const;
      for (let after: string | null = start; after !== null; ) {
        const page: { limit: number; after: string } = { limit: pageMax, after };
        const { changes, next } = await send<ReturnType<typeof decodeChanges>>(
          (id) => encodeChanges(id, numbers, { ...page, isCopy }),
          (head, fields) => {
            if (head.status !== 0) throw statusFault(head.status, merged, fields.text());
            return decodeChanges(fields, isCopy);
          },
          { waitMs: WORKER_WAIT_MS, name: 'the list of changes' },
        );
        yield* changes;
        after = next;
      }
    },

    listCovered({ upper, lower }, max) {
      const numbers = [rootOf(upper), rootOf(lower)] as const;
      return send(
        (id) => encodeCovered(id, numbers, max),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, upper, fields.text());
          return decodeCovered(fields);
        },
        { waitMs: WORKER_WAIT_MS, name: 'looking for changed files' },
      );
    },

    listDirectories(root, max) {
      const number = rootOf(root);
      return send(
        (id) => encodeDirectories(id, number, max),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, root, fields.text());
          return decodeDirectories(fields);
        },
        { waitMs: WORKER_WAIT_MS, name: 'listing directories' },
      );
    },

    copyTree({ merged, upper, lower }, page) {
      const numbers = [rootOf(lower), rootOf(merged), rootOf(upper)] as const;
      return send(
        (id) => encodeCopy(id, numbers, page),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, lower, fields.text());
          return decodeCopied(fields);
        },
        { waitMs: INSTALL_WAIT_MS, name: 'copying the directory' },
      );
    },

    giveToOwner(directory) {
      const target = locate(directory);
      return send(
        (id) => encodeGive(id, target),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, directory, fields.text());
          return fields.u32();
        },
        { waitMs: WORKER_WAIT_MS, name: 'giving files to their owner' },
      );
    },

    async readMany(roots, { paths, bytesMax }) {
      const numbers = [rootOf(roots.before), rootOf(roots.after)] as const;
      const texts: ChangeTexts[] = [];
      while (texts.length < paths.length) {
        const rest = paths.slice(texts.length, texts.length + READ_MANY_MAX);
        const query = { paths: rest, bytesMax };
        const more = await send(
          (id) => encodeReadMany(id, numbers, query),
          (head, fields) => {
            if (head.status !== 0) throw statusFault(head.status, roots.after, fields.text());
            return decodeReadMany(fields, query);
          },
          { waitMs: WORKER_WAIT_MS, name: 'reading changed files' },
        );
        texts.push(...more);
      }
      return texts;
    },

    async install(job) {
      const unstaged = await stage(job);
      if (unstaged !== undefined)
        return job.steps.map(({ path }) =>
          path === unstaged.path ? unstaged : { path, outcome: 'skipped' },
        );
      const frames = planFrames(job, (step) => isStaged(job, step));
      const outcomes: InstallOutcome[] = [];
      const [to, undo] = [locate(job.to), job.undo === null ? null : locate(job.undo)];
      for (const [at, { from, steps }] of frames.entries()) {
        const flags = [
          ...(job.isRepeat === true ? (['repeat'] as const) : []),
          ...(at === frames.length - 1 ? (['sync'] as const) : []),
        ];
        const { applyId } = job;
        const frame = { from: locate(from), to, undo, applyId, flags, steps };
        outcomes.push(...(await sendSteps(frame, decodeInstall)));
        if (outcomes.some(isBad)) break;
      }
      const skipped = job.steps.slice(outcomes.length);
      return [...outcomes, ...skipped.map(({ path }) => ({ path, outcome: 'skipped' as const }))];
    },

    async checkInstall(job) {
      const checked: CheckedStep[] = [];
      const places = { to: locate(job.to), undo: null };
      const isReady = (step: InstallStep) => isStaged(job, step) && step.source === 'ready';
      for (const { from: place, steps } of planFrames(job, isReady)) {
        const from = locate(place);
        const frame = { ...places, from, applyId: job.applyId, flags: ['check'] as const, steps };
        checked.push(...(await sendSteps(frame, decodeCheck)));
      }
      return checked;
    },
  };
}

const isStaged = ({ staging }: InstallJob, { source, after }: InstallStep): boolean =>
  staging !== null && source !== 'layer' && after?.type === 'file';

const isBad = ({ outcome }: InstallOutcome): boolean =>
  outcome === 'conflict' || outcome === 'failed';
