// Checks one part of a request, its path, query or body, and words the fault for its sender.
import type { z } from 'zod';
import { fault } from '../wire/errors.ts';
import { checkValue } from './check.ts';
import { findNearest } from './did-you-mean.ts';
import { knownKeys } from './schema-messages.ts';

function describeIssue(issue: z.core.$ZodIssue, where: string, schema: z.ZodType): string {
  const path = issue.path.map(String).join('.');
  const name = path === '' ? where : where === 'body' ? path : `${where} ${path}`;
  if (issue.code !== 'unrecognized_keys') return `${name}: ${issue.message}`;
  const { keys } = issue;
  const known = knownKeys(schema, issue.path);
  const near = keys.length === 1 ? findNearest(keys[0]!, known) : undefined;
  const suggestion = near === undefined ? '' : ` (did you mean ${near}?)`;
  return `${name} has unknown ${keys.length > 1 ? 'keys' : 'key'} ${keys.join(', ')}${suggestion}`;
}

export function checkPart<S extends z.ZodType>(
  schema: S | undefined,
  value: unknown,
  where: string,
): z.output<S> | undefined {
  if (schema === undefined) {
    const isEmpty =
      value === undefined ||
      (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
    if (!isEmpty) throw fault('bad_request', `this route takes no ${where}`);
    return undefined;
  }
  const checked = checkValue(schema, value ?? (where === 'query' ? {} : value));
  if (checked.success) return checked.data;
  const issues = checked.issues.slice(0, 5).map((issue) => describeIssue(issue, where, schema));
  throw fault('bad_request', issues.join('; '), {
    details: { fields: checked.issues.slice(0, 20).map((i) => i.path.map(String).join('.')) },
  });
}
