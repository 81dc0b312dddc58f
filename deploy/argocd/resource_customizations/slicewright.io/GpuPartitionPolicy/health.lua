-- kstatus: Reconciling, Stalled and Ready say how the policy stands, and observedGeneration which spec they are about.
-- Two answers that kstatus has no word for: a policy that is paused, or only previews, waits for a human and for nothing
-- else, so it is Suspended; a policy whose layout is in place but which lacks something (Degraded) says what.
local health = {status = "Progressing", message = "Waiting for the operator to look at the policy"}
if obj.status == nil or obj.status.observedGeneration == nil
    or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end

local ready = nil
local lacks = nil
for _, condition in ipairs(obj.status.conditions or {}) do
  if condition.status == "True" and condition.type == "Reconciling" then
    return {status = "Progressing", message = condition.message}
  end
  if condition.status == "True" and condition.type == "Stalled" then
    return {status = "Degraded", message = condition.message}
  end
  if condition.type == "Ready" then
    ready = condition
  end
  if condition.type == "Degraded" and condition.status == "True" then
    lacks = condition
  end
end

if ready == nil then
  return health
end
health.message = ready.message
if ready.status == "True" then
  health.status = "Healthy"
  if lacks ~= nil then
    health.message = ready.message .. "; but " .. lacks.message
  end
elseif ready.reason == "Paused" or ready.reason == "Preview" then
  health.status = "Suspended"
end
return health
