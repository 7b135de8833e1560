// The Anthropic Messages dialect, assembled from the folder of the same name.
import { readRequest } from './anthropic/read-request.ts';
import { readResponse, readStream } from './anthropic/read-response.ts';
import { passHeaders } from './anthropic/version.ts';
import { writeAnthropicError, writeAnthropicStreamError } from './anthropic/write-errors.ts';
import { writeRequest } from './anthropic/write-request.ts';
import { writeResponse, writeStream } from './anthropic/write-response.ts';
import type { Dialect } from './dialect.ts';
import { asNumber, asObject } from './reading.ts';

/** Room for an answer after the thinking. */
const ANSWER_TOKENS_MIN = 16;

export const anthropic: Dialect = {
  name: 'anthropic',
  chatPath: '/v1/messages',
  authHeaders: (key) => ({ 'x-api-key': key }),
  passHeaders,
  writeRequest,
  readResponse: readResponse,
  readStream,
  readRequest,
  writeResponse: writeResponse,
  writeStream,
  writeError: writeAnthropicError,
  writeStreamError: writeAnthropicStreamError,
  readOutputLimit(body) {
    const tokens = asNumber(body.max_tokens);
    const thinking = asNumber(asObject(body.thinking)?.budget_tokens);
    // Thinking is part of the output, and the limit must be above its budget.
    const tokensMin = thinking === undefined ? undefined : thinking + ANSWER_TOKENS_MIN;
    return { tokens, tokensMin, choices: 1 };
  },
  outputLimit: (_body, tokens) => ({ max_tokens: tokens }),
};
