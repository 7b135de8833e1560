// Writes a fault in Anthropic's error format, so that its SDKs raise the class their users catch.
import type { Fault, FaultCode } from '../../../../wire/errors.ts';
import type { DialectError } from '../dialect.ts';
import { makeErrorHeaders, readUpstreamStatus, writeErrorMessage } from '../error-headers.ts';
import type { JsonObject } from '../reading.ts';
import { writeSse } from '../sse.ts';

const OVERLOADED = 529;

const STATUS: Partial<Record<FaultCode, number>> = {
  overloaded: OVERLOADED,
  budget: 402,
  limit: 402,
};

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

function chooseStatus(fault: Fault): number {
  const upstream = readUpstreamStatus(fault);
  if (fault.code === 'provider_refused') return upstream ?? 400;
  if (fault.code === 'provider_down' && fault.details?.upstream_status === OVERLOADED)
    return OVERLOADED;
  return STATUS[fault.code] ?? fault.http;
}

function writeBody(fault: Fault): JsonObject {
  const status = chooseStatus(fault);
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  const { code, hint, retry, retry_after_ms, details } = fault.toBody();
  return {
    type: 'error',
    error: {
      type,
      message: writeErrorMessage(fault),
      // The SDK reads an error's code here.
      details: { ...details, error_code: code, hint, retry, retry_after_ms },
    },
    request_id: null,
  };
}

export function writeAnthropicError(fault: Fault): DialectError {
  return {
    status: chooseStatus(fault),
    headers: makeErrorHeaders(fault),
    body: JSON.stringify(writeBody(fault)),
  };
}

export function writeAnthropicStreamError(fault: Fault): string {
  return writeSse({ event: 'error', data: JSON.stringify(writeBody(fault)) });
}
