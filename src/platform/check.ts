// Checks untrusted values against a schema without ever throwing.
import type { z } from 'zod';
import { describeIssue } from './schema-messages.ts';

type CheckResult<S extends z.ZodType> =
  | { success: true; data: z.output<S> }
  | { success: false; issues: z.core.$ZodIssue[] };

/**
 * The schema library compares an invalid value with its limits, and a JSON object with members such
 * as `length` and `toString` makes that comparison throw.
 */
export function checkValue<S extends z.ZodType>(schema: S, value: unknown): CheckResult<S> {
  try {
    const parsed = schema.safeParse(value, { error: describeIssue });
    if (parsed.success) return { success: true, data: parsed.data };
    return { success: false, issues: parsed.error.issues };
  } catch (error) {
    const message = `cannot be read: ${(error as Error).message}`;
    return { success: false, issues: [{ code: 'custom', path: [], message, input: undefined }] };
  }
}
