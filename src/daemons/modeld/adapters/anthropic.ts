// Anthropic Messages as a dialect. Its parts are in the folder of the same name.

import { readRequest } from './anthropic/read-request.ts';
import { readAnswer, readStream } from './anthropic/read-response.ts';
import { versionFor } from './anthropic/version.ts';
import { toAnthropicError, toAnthropicStreamError } from './anthropic/write-errors.ts';
import { writeRequest } from './anthropic/write-request.ts';
import { writeAnswer, writeStream } from './anthropic/write-response.ts';
import type { Dialect } from './dialect.ts';
import { asNumber } from './reading.ts';

export const anthropic: Dialect = {
  name: 'anthropic',
  chatPath: '/v1/messages',
  authHeaders: (key) => ({ 'x-api-key': key }),
  passHeaders: (body) => ({ 'anthropic-version': versionFor(body) }),
  writeRequest,
  readAnswer,
  readStream,
  readRequest,
  writeAnswer,
  writeStream,
  writeError: toAnthropicError,
  writeStreamError: toAnthropicStreamError,
  readOutputLimit: (body) => ({ tokens: asNumber(body.max_tokens), choices: 1 }),
  outputLimit: (_body, tokens) => ({ max_tokens: tokens }),
};
