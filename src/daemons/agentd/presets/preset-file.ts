// Parses a preset: a YAML file of ours, or the JSON of the first system. Every problem has a line,
// and nothing of a preset with a problem is used. Variables are texts that are put in, once, and
// never evaluated.
import { findNearest } from '../../../platform/did-you-mean.ts';
import { readYaml } from '../../../platform/yaml-file.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { convertFirstSystem, FirstSystemPreset } from './first-system.ts';
import { type Preset, PresetShape, type Variable } from './preset-schema.ts';
import { findTaskCycle } from './task-order.ts';
import { listVariableNames } from './variables.ts';

export type PresetResult = { ok: true; preset: Preset } | { ok: false; problems: FileProblem[] };

const CheckedPreset = PresetShape.superRefine((preset, context) => {
  for (const { path, message, hint } of findIssues(preset))
    context.addIssue({ code: 'custom', path, message, params: { hint } });
});
const CheckedFirstSystem = FirstSystemPreset.superRefine((written, context) => {
  for (const { path, message, hint } of findIssues(convertFirstSystem(written)))
    context.addIssue({ code: 'custom', path: toTheirPath(path), message, params: { hint } });
});

export function parsePreset(source: string, file: string): PresetResult {
  // JSON is YAML, too. Theirs begins with a brace, and has no apiVersion.
  if (source.trimStart().startsWith('{') && !/"apiVersion"/.test(source)) {
    const read = readYaml(source, file, CheckedFirstSystem);
    return read.ok ? { ok: true, preset: convertFirstSystem(read.value) } : read;
  }
  const read = readYaml(source, file, CheckedPreset);
  return read.ok ? { ok: true, preset: read.value } : read;
}

const THEIR_KEYS: Record<string, string> = { agent: 'owner', after: 'blocked_by', goal: 'subject' };
const toTheirPath = (path: PropertyKey[]): PropertyKey[] =>
  path.map((part) => THEIR_KEYS[String(part)] ?? part);

type PresetIssue = { path: PropertyKey[]; message: string; hint: string };

function findIssues(preset: Preset): PresetIssue[] {
  return [
    ...findDuplicates(preset),
    ...checkTasks(preset),
    ...checkMail(preset),
    ...checkVariables(preset),
    ...checkPlaceholders(preset),
  ];
}

function findDuplicates({ agents, tasks }: Preset): PresetIssue[] {
  const lists: [string, string, string[]][] = [
    ['agents', 'name', agents.map(({ name }) => name)],
    ['tasks', 'id', tasks.map(({ id }) => id)],
  ];
  return lists.flatMap(([list, member, values]) =>
    values.flatMap((value, i) =>
      values.indexOf(value) === i
        ? []
        : [
            {
              path: [list, i, member],
              message: `${value} is declared twice`,
              hint: 'Give each its own name.',
            },
          ],
    ),
  );
}

const suggest = (wrong: string, known: readonly string[]): string => {
  const near = findNearest(wrong, [...known]);
  return near === undefined ? `Declared are: ${known.join(', ')}.` : `Did you mean ${near}?`;
};

function checkTasks({ agents, tasks }: Preset): PresetIssue[] {
  const names = agents.map(({ name }) => name);
  const ids = tasks.map(({ id }) => id);
  const issues = tasks.flatMap(({ agent, after = [] }, i): PresetIssue[] => [
    ...(agent === undefined || names.includes(agent as never)
      ? []
      : [
          {
            path: ['tasks', i, 'agent'],
            message: `agent ${agent} is not among the agents of this preset`,
            hint: suggest(agent, names),
          },
        ]),
    ...after.flatMap((id, n) =>
      ids.includes(id)
        ? []
        : [
            {
              path: ['tasks', i, 'after', n],
              message: `there is no task ${id} in this preset`,
              hint: suggest(id, ids),
            },
          ],
    ),
  ]);
  const cycle = findTaskCycle(tasks);
  if (cycle === undefined) return issues;
  const message = `tasks wait for each other: ${cycle.join(' → ')}`;
  const at = ids.indexOf(cycle[0]!);
  const hint = 'Remove one of these dependencies.';
  return [...issues, { path: ['tasks', at, 'after'], message, hint }];
}

const checkMail = ({ agents, mail = [] }: Preset): PresetIssue[] => {
  const names: string[] = agents.map(({ name }) => name);
  return mail.flatMap(({ to }, i) =>
    names.includes(to)
      ? []
      : [
          {
            path: ['mail', i, 'to'],
            message: `${to} is not among the agents of this preset`,
            hint: suggest(to, names),
          },
        ],
  );
};

function checkVariables({ variables = {} }: Preset): PresetIssue[] {
  return Object.entries(variables).flatMap(([name, variable]): PresetIssue[] => {
    const path = ['variables', name];
    const pattern = compilePattern(variable.pattern);
    if (variable.pattern !== undefined && pattern === undefined)
      return [
        {
          path: [...path, 'pattern'],
          message: `pattern of ${name} is no regular expression`,
          hint: 'Correct it; it must match the whole value.',
        },
      ];
    if (variable.default === undefined) return [];
    const wrong = findValueProblem(name, variable.default, variable);
    return wrong === undefined ? [] : [{ path: [...path, 'default'], ...wrong }];
  });
}

export function compilePattern(pattern: string | undefined): RegExp | undefined {
  if (pattern === undefined) return undefined;
  try {
    return new RegExp(`^(?:${pattern})$`, 'u');
  } catch {
    return undefined;
  }
}

export function findValueProblem(
  name: string,
  value: string,
  { pattern, choice }: Variable,
): { message: string; hint: string } | undefined {
  if (choice !== undefined && !choice.includes(value))
    return {
      message: `${name} is '${value}', which is not a choice`,
      hint: `Use one of: ${choice.join(', ')}.`,
    };
  if (compilePattern(pattern)?.test(value) === false)
    return {
      message: `${name} is '${value}', which does not match ${pattern}`,
      hint: 'Give a value of this form.',
    };
  return undefined;
}

/** Texts may have variables; names, ids and lists may not. */
function checkPlaceholders(preset: Preset): PresetIssue[] {
  const known = Object.keys(preset.variables ?? {});
  const texts: [PropertyKey[], string | undefined][] = [
    ...preset.agents.flatMap(({ description, instructions }, i) => [
      [['agents', i, 'description'], description] as [PropertyKey[], string | undefined],
      [['agents', i, 'instructions'], instructions] as [PropertyKey[], string | undefined],
    ]),
    ...preset.tasks.map(({ goal }, i): [PropertyKey[], string] => [['tasks', i, 'goal'], goal]),
    ...(preset.mail ?? []).flatMap(({ subject, body }, i): [PropertyKey[], string][] => [
      [['mail', i, 'subject'], subject],
      [['mail', i, 'body'], body],
    ]),
  ];
  return texts.flatMap(([path, value]) =>
    listVariableNames(value ?? '')
      .filter((name) => !known.includes(name))
      .map((name) => ({
        path,
        message: `variable ${name} is not declared`,
        hint: known.length === 0 ? `Declare it below variables.` : suggest(name, known),
      })),
  );
}
