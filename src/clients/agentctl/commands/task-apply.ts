// agentctl task apply, discard and undo: what a person does with the changes of a task tree.

import { quoteWord } from '../../../platform/quote-word.ts';
import { escapeHidden } from '../../../platform/text/hidden.ts';
import type { ApplyView, TreeChanges } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { countByKind } from '../diff/header.ts';
import { quotePath } from '../diff/quote-path.ts';
import { CHANGES_DEADLINE_MS, readChanges, toChangedPaths } from '../diff/read-changes.ts';
import { confirm } from '../input.ts';
import type { RuntimeClient } from '../runtime.ts';
import { pluralize } from '../show/amounts.ts';

const EXIT_WAITING = 4;
const SLOW = { deadlineMs: CHANGES_DEADLINE_MS };

export async function apply({ args, out, runtime }: Session): Promise<number> {
  const [id, ...words] = args.positionals as [string, ...string[]];
  const allow = [...args.list('allow')];
  const overwrite = args.flag('overwrite');
  if (overwrite && words.length === 0)
    throw fault('bad_usage', '--overwrite is for the paths that you name', {
      hint: `See what conflicts: agentctl task diff ${id} --name-only`,
    });
  const paths = await readPaths(runtime(), id, words);
  const body = {
    ...(overwrite ? { overwrite } : {}),
    ...(paths === undefined ? {} : { paths }),
    ...(allow.length === 0 ? {} : { allow }),
  };
  const request = { params: { id }, body };
  const answer = await runtime()
    .call('agentd', 'applyChanges', request, { ...SLOW, idempotent: true })
    .catch(async (error: unknown) => {
      throw await explain(error, { id, words, allow, runtime: runtime(), info: out.info });
    });
  out.print(answer, () => renderApply(answer.apply));
  return answer.apply.status === 'waiting' ? EXIT_WAITING : 0;
}

/** The directory itself means all changes. */
async function readPaths(
  runtime: RuntimeClient,
  id: string,
  words: readonly string[],
): Promise<string[] | undefined> {
  if (words.length === 0) return undefined;
  const paths = toChangedPaths(words, await readChanges(runtime, id));
  return paths.includes('') ? undefined : paths;
}

function renderApply({ status, path, counts, ...apply }: ApplyView): string[] {
  const own = apply.layer_task_id;
  const id = own ?? apply.root_task_id;
  const target = own === undefined ? quotePath(path) : 'the layer of its parent';
  const what = countByKind(counts);
  if (status === 'waiting')
    return [
      `A person has to approve this first (${what}): agentctl approvals ${apply.approval_id}`,
      `It is applied as soon as they do: agentctl approve ${apply.approval_id}`,
    ];
  const moved = apply.commits.map(
    ({ ref, from, to, count }) =>
      `${pluralize(count, 'commit')} on ${escapeHidden(ref.replace(/^refs\/heads\//, ''))}: ` +
      `${from === null ? 'new' : from.slice(0, 12)} -> ${to.slice(0, 12)}`,
  );
  return [
    `${pluralize(apply.applied.length, 'change')} applied to ${target}: ${what}`,
    ...apply.merged.map((file) => `merged    ${quotePath(file)}  with what you have changed`),
    ...moved,
    ...explainLeft(apply.commits_left, { path, id }),
    `Take it back: agentctl task undo ${id}`,
  ];
}

function explainLeft(
  left: ApplyView['commits_left'],
  { path, id }: { path: string; id: string },
): string[] {
  const [first] = left;
  if (first === undefined) return [];
  const nameOf = (ref: string): string => ref.replace(/^refs\/heads\//, '');
  const branches = left.map(
    ({ ref, count }) => `${pluralize(count, 'commit')} on ${escapeHidden(nameOf(ref))}`,
  );
  const init = `git init -b ${quoteWord(nameOf(first.ref))} ${quoteWord(path)}`;
  return [
    `Not brought over: ${branches.join(', ')}. The task has made a git repository itself, and git runs what its settings and hooks name.`,
    `To have the commits, make one of your own: ${init} && agentctl task apply ${id}`,
  ];
}

type Explained = {
  id: string;
  words: readonly string[];
  allow: readonly string[];
  runtime: RuntimeClient;
  info: (text: string) => void;
};

/** Prints what is in the way, each with what to do about it. */
async function explain(error: unknown, context: Explained): Promise<unknown> {
  if (!(error instanceof Fault)) return error;
  // The warden's faults name a code there.
  if (typeof error.details?.refused === 'string') return error;
  const { refused, conflicts } = (error.details ?? {}) as {
    refused?: { path: string; kinds: string[] }[];
    conflicts?: { path: string; reason: string }[];
  };
  const { id, words, allow, info } = context;
  if (refused !== undefined) {
    const { refusals } = await readChanges(context.runtime, id).catch(
      (): Pick<TreeChanges, 'refusals'> => ({ refusals: {} }),
    );
    for (const { path, kinds } of refused)
      for (const kind of kinds)
        info(
          `refused   ${quotePath(path)}  ${kind}: ${escapeHidden(refusals[kind]?.reason ?? '')}`,
        );
    const named = [...new Set([...allow, ...refused.flatMap(({ kinds }) => kinds)])];
    const command = ['agentctl task apply', id, ...words.map(quoteWord), ...toFlags(named)].join(
      ' ',
    );
    return fault(error.code, `${error.message}; nothing was applied`, {
      hint: `Look at each; to apply them, too: ${command}`,
      details: error.details,
    });
  }
  if (conflicts !== undefined) {
    for (const { path, reason } of conflicts)
      info(`conflict  ${quotePath(path)}  ${ADVICE[reason] ?? reason}`);
    const taken = conflicts.map(({ path }) => quoteWord(path)).join(' ');
    const command = ['agentctl task apply', id, taken, '--overwrite', ...toFlags(allow)].join(' ');
    const isLong = command.length > COMMAND_CHARS_MAX;
    return fault(error.code, `${error.message}; nothing was applied`, {
      hint: `Name the other paths, or take the task's text for these, which undo restores: ${isLong ? `agentctl task apply ${id} PATH… --overwrite` : command}`,
      details: error.details,
    });
  }
  return error;
}

const toFlags = (kinds: readonly string[]): string[] => kinds.map((kind) => `--allow ${kind}`);
const COMMAND_CHARS_MAX = 400;

const ADVICE: Readonly<Record<string, string>> = {
  changed:
    'you have changed it, too, and the text that both began from was not kept, or is no text',
  overlaps: 'you and the task have changed the same lines',
  removed: 'you have removed it',
  appeared: 'you have made it, too',
  moved: 'you have moved another directory in place of the one that it was in',
};

export async function discard({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  if (!args.flag('yes')) {
    const { changes, path, layer_task_id: own } = await readChanges(runtime(), id);
    const target = own === undefined ? quotePath(path) : 'the layer of its parent';
    await confirm(
      `Discard ${pluralize(changes.length, 'change')} for ${target} for good?`,
      `agentctl task discard ${id} --yes`,
    );
  }
  const answer = await runtime().call(
    'agentd',
    'discardChanges',
    { params: { id }, body: {} },
    SLOW,
  );
  const { root_task_id: root, discarded } = answer.discard;
  out.print(answer, () => [`${root}: ${pluralize(discarded, 'change')} discarded`]);
}

export async function undo({ args, out, runtime }: Session): Promise<void> {
  const applyId = args.text('apply');
  const body = applyId === undefined ? {} : { apply_id: applyId };
  const request = { params: { id: args.positionals[0]! }, body };
  const answer = await runtime().call('agentd', 'undoChanges', request, SLOW);
  const { root_task_id: root, apply_id, restored, is_in_layer, kept_at } = answer.undo;
  out.print(answer, () => [
    `${pluralize(restored.length, 'path')} restored as before ${apply_id}`,
    is_in_layer
      ? `The changes are in the layer again: agentctl task diff ${root}`
      : `The changes are not in the layer, ${whereElse(root, kept_at)}`,
  ]);
}

const whereElse = (root: string, keptAt: string | null): string =>
  keptAt === null
    ? `which was applied or discarded since: agentctl task diff ${root} shows newer ones`
    : `which has newer ones. Until the next apply or discard they are kept in ${quotePath(keptAt)}`;
