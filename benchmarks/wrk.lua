-- Sends bodies that were written before, one after another, and sums up as JSON.
-- The file has records: a length as text, a line feed, and so many bytes.
local requests, at = {}, 0

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local headers = { ["Content-Type"] = arguments[2], ["Authorization"] = arguments[3] }
  while true do
    local length = file:read("*l")
    if length == nil then break end
    requests[#requests + 1] = wrk.format("POST", nil, headers, file:read(tonumber(length)))
  end
  file:close()
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, _)
  local bad = summary.errors
  io.write(string.format(
    '\nSUMMARY {"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "bad": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, bad.connect + bad.read + bad.write + bad.status + bad.timeout))
end
