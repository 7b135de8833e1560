// Writes a fault in OpenAI's error format, so that its SDKs raise the class their users catch.
import type { Fault, FaultCode } from '../../../../wire/errors.ts';
import type { DialectError } from '../dialect.ts';
import { makeErrorHeaders, readUpstreamStatus, writeErrorMessage } from '../error-headers.ts';
import type { JsonObject } from '../reading.ts';
import { writeSse } from '../sse.ts';

type Row = { status?: number; type: string; code?: string };

const ROWS: Partial<Record<FaultCode, Row>> = {
  unauthenticated: { status: 401, type: 'invalid_request_error', code: 'invalid_api_key' },
  not_found: { status: 404, type: 'invalid_request_error', code: 'model_not_found' },
  context_too_long: {
    status: 400,
    type: 'invalid_request_error',
    code: 'context_length_exceeded',
  },
  rate_limited: { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' },
  // OpenAI's own code for an exhausted quota.
  budget: { status: 429, type: 'insufficient_quota', code: 'insufficient_quota' },
  limit: { status: 429, type: 'insufficient_quota', code: 'insufficient_quota' },
};

function chooseStatus(fault: Fault): number {
  if (fault.code === 'provider_refused') return readUpstreamStatus(fault) ?? 400;
  return ROWS[fault.code]?.status ?? fault.http;
}

function writeBody(fault: Fault): JsonObject {
  const row = ROWS[fault.code];
  const status = chooseStatus(fault);
  return {
    error: {
      message: writeErrorMessage(fault),
      type: row?.type ?? (status >= 500 ? 'server_error' : 'invalid_request_error'),
      param: null,
      code: row?.code ?? fault.code,
      agentd: fault.toBody(),
    },
  };
}

export function writeOpenaiError(fault: Fault): DialectError {
  return {
    status: chooseStatus(fault),
    headers: makeErrorHeaders(fault),
    body: JSON.stringify(writeBody(fault)),
  };
}

export function writeOpenaiStreamError(fault: Fault): string {
  return writeSse({ data: JSON.stringify(writeBody(fault)) });
}
