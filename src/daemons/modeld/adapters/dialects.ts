// The two dialects by name, and errors in a client's dialect.
import type { Fault } from '../../../wire/errors.ts';
import { anthropic } from './anthropic.ts';
import type { Dialect, DialectError, DialectName } from './dialect.ts';
import { openai } from './openai.ts';

export const dialects: Record<DialectName, Dialect> = { anthropic, openai };

export function writeDialectError(dialect: DialectName, fault: Fault): DialectError {
  return dialects[dialect].writeError(fault);
}
