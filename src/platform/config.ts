// Loads the configuration, agentd.yaml and its drop-ins (agentd.yaml.d/*.yaml, sorted by name, the
// later takes precedence), with one section per daemon. One invalid file fails the whole load.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { type Fault, fault } from '../wire/errors.ts';
import type { FileProblem } from '../wire/primitives.ts';
import { checkValue } from './check.ts';
import { readYaml, type YamlProblem } from './yaml-file.ts';

export type Sections = Record<string, z.ZodType>;
export type Config<S extends Sections> = { [K in keyof S]: z.output<S[K]> };

function merge(under: unknown, over: unknown): unknown {
  const isObject = (v: unknown): v is Record<string, unknown> =>
    typeof v === 'object' && v !== null && !Array.isArray(v);
  if (!isObject(under) || !isObject(over)) return over === undefined ? under : over;
  const result: Record<string, unknown> = { ...under };
  for (const [key, value] of Object.entries(over)) result[key] = merge(under[key], value);
  return result;
}

function listFiles(main: string): string[] {
  const dropIns = `${main}.d`;
  const rest = existsSync(dropIns)
    ? readdirSync(dropIns)
        .filter((name) => name.endsWith('.yaml'))
        .sort()
        .map((name) => join(dropIns, name))
    : [];
  return [...(existsSync(main) ? [main] : []), ...rest];
}

/** A fault has only one hint, so each of several problems has its hint in its line. */
function configFault(found: readonly YamlProblem[]): Fault {
  const isOne = found.length === 1;
  const lines = found.map(({ file, line, message, hint, reason }) => {
    const what = `${file}${line === null ? '' : `:${line}`}: ${message}`;
    return isOne || reason === 'value' ? what : `${what}. ${hint}`;
  });
  const problems = found.map(({ reason: _, ...problem }): FileProblem => problem);
  return fault('bad_config', lines.join('\n'), {
    hint: isOne ? problems[0]!.hint : 'Correct each of them.',
    details: { problems },
  });
}

export function loadConfig<S extends Sections>(
  main: string,
  sections: S,
  options: { mustExist?: boolean; readText?: ((file: string) => string) | undefined } = {},
): Config<S> {
  const { mustExist = false, readText = (file) => readFileSync(file, 'utf8') } = options;
  if (mustExist && !existsSync(main))
    throw fault('bad_config', `${main} not found`, {
      hint: 'Check the path given with --config.',
    });
  // Each file may set only some keys, so files are checked without defaults.
  const partial = z.strictObject(
    Object.fromEntries(Object.entries(sections).map(([name, schema]) => [name, schema.optional()])),
  );
  let merged: unknown = {};
  for (const file of listFiles(main)) {
    const text = readText(file);
    const result = readYaml(text, file, partial);
    if (!result.ok) throw configFault(result.problems);
    merged = merge(merged, (readYaml(text, file, z.unknown()) as { value: unknown }).value);
  }
  const whole = z.strictObject(
    Object.fromEntries(
      Object.entries(sections).map(([name, schema]) => [name, schema.prefault({})]),
    ),
  );
  const checked = checkValue(whole, merged);
  if (checked.success) return checked.data as Config<S>;
  const { path, message } = checked.issues[0]!;
  throw fault('bad_config', `${main}: ${path.join('.')}: ${message}`);
}
