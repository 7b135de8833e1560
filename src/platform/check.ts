// Checking a value from outside against a schema, without ever throwing.
import type { z } from 'zod';
import { plainWords } from './schema-messages.ts';

type Checked<S extends z.ZodType> =
  | { success: true; data: z.output<S> }
  | { success: false; issues: z.core.$ZodIssue[] };

/**
 * The schema library compares what it finds with its limits before it gives up, and a JSON object
 * with members such as `length` and `toString` makes that comparison throw.
 */
export function checkValue<S extends z.ZodType>(schema: S, value: unknown): Checked<S> {
  try {
    const parsed = schema.safeParse(value, { error: plainWords });
    if (parsed.success) return { success: true, data: parsed.data };
    return { success: false, issues: parsed.error.issues };
  } catch (error) {
    const message = `cannot be read: ${(error as Error).message}`;
    return { success: false, issues: [{ code: 'custom', path: [], message, input: undefined }] };
  }
}
