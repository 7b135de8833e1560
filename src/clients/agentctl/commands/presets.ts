// agentctl preset list, show and load.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PresetView, TaskView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { Args, Session } from '../command.ts';
import { readInput } from '../input.ts';
import type { Out } from '../out.ts';
import { findPackageDir } from '../programs.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatMoney, formatSpan, pluralize } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { pad, truncate } from '../show/width.ts';

type PresetFile = { name: string; file: string; source: 'package' | 'yours' };

/** A file of the operator's takes the place of one of the package. */
function findPresets(stateDir: string): PresetFile[] {
  const found = new Map<string, PresetFile>();
  for (const [source, dir] of [
    ['package', join(findPackageDir(), 'presets')],
    ['yours', join(stateDir, 'presets')],
  ] as const) {
    if (!existsSync(dir)) continue;
    for (const entry of readdirSync(dir).sort()) {
      const [, name] = /^([a-z0-9][a-z0-9-]*)\.(?:ya?ml|json)$/.exec(entry) ?? [];
      if (name !== undefined) found.set(name, { name, file: join(dir, entry), source });
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A name, or a path: that of a file has a slash or an ending, and - is standard input. */
function readPreset(given: string, stateDir: string): { file: string; text: string } {
  if (given === '-' || /[/.]/.test(given)) return { file: given, text: readInput(given) };
  const presets = findPresets(stateDir);
  const found = presets.find(({ name }) => name === given);
  if (found !== undefined) return { file: found.file, text: readFileSync(found.file, 'utf8') };
  throw fault('not_found', `preset ${given} not found`, {
    hint: `Use one of: ${presets.map(({ name }) => name).join(', ')}; or the path of a file.`,
  });
}

const check = async (runtime: RuntimeClient, { file, text }: { file: string; text: string }) =>
  (await runtime.call('agentd', 'loadPreset', { body: { file, text, dry_run: true } })).preset;

export async function list({ out, runtime, stateDir }: Session): Promise<void> {
  const presets = await Promise.all(
    findPresets(stateDir).map(async ({ name, file, source }) => {
      const text = readFileSync(file, 'utf8');
      const view = await check(runtime(), { file, text }).catch((error: Error) => error.message);
      return typeof view === 'string'
        ? { name, source, file, problem: view }
        : {
            name,
            source,
            file,
            description: view.description,
            agents: view.agents.length,
            tasks: view.tasks.length,
          };
    }),
  );
  out.print({ presets }, () => {
    if (presets.length === 0) return ['No presets.'];
    const rows = presets.map((one) => [
      one.name,
      'problem' in one ? '–' : `${one.agents}`,
      'problem' in one ? '–' : `${one.tasks}`,
      one.source,
      'problem' in one ? toOneLine(one.problem!) : one.description!,
    ]);
    const headers = [
      { title: 'NAME' },
      { title: 'AGENTS', align: 'right' },
      { title: 'TASKS', align: 'right' },
      { title: 'FROM' },
      { title: 'WHAT IT DOES', minWidth: 20 },
    ] as const;
    return [...renderTable(headers, rows, out), 'Try one: agentctl preset load NAME'];
  });
}

export async function show({ args, out, runtime, stateDir }: Session): Promise<void> {
  const preset = await check(runtime(), readPreset(args.positionals[0]!, stateDir));
  out.print({ preset }, () => renderPreset(preset, out));
}

function renderPreset(preset: PresetView, { paint, columns }: Out): string[] {
  const variables = preset.variables.map(({ name, value, choice, description, from }) => {
    const state = from === 'missing' ? 'required' : `${from} '${toOneLine(value ?? '')}'`;
    const choices = choice.length === 0 ? '' : ` (${choice.join(', ')})`;
    return `  ${name}  ${state}${choices}${description === '' ? '' : `: ${description}`}`;
  });
  const agents = preset.agents.map(
    ({ name, action, description }) =>
      `  ${name}  ${action}${description === '' ? '' : `: ${description}`}`,
  );
  const tasks = preset.tasks.map(({ id, agent, after, goal, needs }) => {
    const who = agent ?? `the best match${needs.length === 0 ? '' : ` with ${needs.join(', ')}`}`;
    const order = after.length === 0 ? '' : `, after ${after.join(', ')}`;
    return `  ${id}  ${who}${order}: ${toOneLine(goal)}`;
  });
  const mail = preset.mail.map(({ to, subject }) => `  to ${to}: ${toOneLine(subject)}`);
  const section = (title: string, lines: string[]) =>
    lines.length === 0
      ? []
      : ['', paint('bold', title), ...lines.map((line) => truncate(line, columns))];
  return [
    ...renderFields(
      [
        ['preset', preset.name],
        ['what', preset.description],
      ],
      paint,
      columns,
    ),
    ...section('variables', variables),
    ...section('agents', agents),
    ...section('tasks', tasks),
    ...section('mail', mail),
  ];
}

function readSettings(args: Args): Record<string, string> {
  return Object.fromEntries(
    args.list('set').map((text) => {
      const at = text.indexOf('=');
      if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
      throw fault('bad_usage', `--set ${text} has no value`, {
        hint: 'Write it as --set NAME=VALUE.',
      });
    }),
  );
}

export async function load(session: Session): Promise<number> {
  const { args, out, runtime, stateDir } = session;
  const isDry = args.flag('dry-run');
  const body = {
    ...readPreset(args.positionals[0]!, stateDir),
    variables: readSettings(args),
    ...(isDry ? { dry_run: true } : {}),
    ...(args.flag('skip-existing') ? { skip_existing: true } : {}),
    ...(args.flag('again') ? { again: true } : {}),
  };
  const { preset } = await runtime().call('agentd', 'loadPreset', { body });
  if (isDry) {
    out.print({ preset }, () => [...renderPreset(preset, out), '', 'Nothing was changed.']);
    return 0;
  }
  if (args.flag('no-wait') || out.json) {
    out.print({ preset }, () => [
      `${preset.name}: ${pluralize(preset.agents.length, 'agent')}, ${pluralize(preset.tasks.length, 'task')}`,
      ...preset.tasks.map(
        ({ id, task_id, agent, status }) =>
          `  ${id}  ${task_id}  ${agent ?? 'no agent yet'}: ${status}`,
      ),
      'Follow them: agentctl board',
    ]);
    return 0;
  }
  return follow(session, preset);
}

const POLL_MS = 250;

/** Prints each change of a task until all have ended; Ctrl-C leaves them to their work. */
async function follow({ out, runtime }: Session, preset: PresetView): Promise<number> {
  const names = new Map(preset.tasks.map(({ id, task_id }) => [task_id as string, id]));
  const width = Math.max(...preset.tasks.map(({ id }) => id.length));
  const seen = new Map<string, string>();
  const startMs = Date.now();
  out.info(
    `${preset.name}: ${pluralize(preset.tasks.length, 'task')} for ${preset.agents.map(({ name }) => name).join(', ')}`,
  );
  for (;;) {
    const tasks = await readThread(runtime(), preset);
    for (const task of tasks.toReversed()) {
      if (task.retry_of !== null && !names.has(task.id))
        names.set(task.id, names.get(task.retry_of) ?? task.id);
      const name = names.get(task.id);
      if (name === undefined || seen.get(task.id) === task.status) continue;
      seen.set(task.id, task.status);
      for (const line of describeChange(task, { name: pad(name, width), startMs }))
        out.writeLine(truncate(line, out.columns));
    }
    const mine = tasks.filter(({ id }) => names.has(id));
    const isAgain = new Set(mine.map(({ retry_of }) => retry_of));
    if (mine.every(({ ended_at }) => ended_at !== null)) {
      const last = mine.filter(({ id }) => !isAgain.has(id));
      const done = last.filter(({ status }) => status === 'completed').length;
      const cost = await readCost(runtime(), mine);
      out.writeLine(
        `${done} of ${last.length} completed in ${formatSpan(Date.now() - startMs)}, ${cost}`,
      );
      const result = last.find(({ id }) => id === preset.tasks.at(-1)?.task_id)?.result;
      if (result != null) out.writeLine(`\n${result}`);
      return done === last.length ? 0 : 1;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function readThread(runtime: RuntimeClient, preset: PresetView): Promise<TaskView[]> {
  const query = { context_id: preset.context_id!, limit: 1_000 };
  return (await runtime.call('agentd', 'listTasks', { query })).tasks;
}

async function readCost(runtime: RuntimeClient, tasks: readonly TaskView[]): Promise<string> {
  let tokens = 0;
  let cost = 0;
  for (const { id } of tasks) {
    const { total } = await runtime.call('modeld', 'usage', { query: { task_id: id } });
    tokens += total.usage.input_tokens + total.usage.output_tokens;
    cost += total.cost_microusd;
  }
  return `${pluralize(tokens, 'token')}, ${formatMoney(cost)}`;
}

function describeChange(
  { status, assigned_to, reason, result, error }: TaskView,
  { name, startMs }: { name: string; startMs: number },
): string[] {
  const at = pad(formatSpan(Date.now() - startMs), 8, 'left');
  const who = assigned_to ?? 'no agent yet';
  const why = error?.message ?? reason;
  const said = status === 'completed' ? toOneLine(result ?? '') : toOneLine(why ?? '');
  return [`${at}  ${name}  ${who}: ${status}${said === '' ? '' : ` – ${said}`}`];
}
